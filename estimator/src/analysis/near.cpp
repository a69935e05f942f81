#include "whatfits/near.h"

#include <algorithm>
#include <string_view>

namespace whatfits {
namespace {

/// What must be alike for a recorded run to tell of another.
struct Kind {
  std::string_view model_type;
  Precision precision;
  Attention attention;
  Checkpointing checkpointing;
  bool lora;
  int strategy;  ///< 0: one card; else 1 + Parallel::Strategy

  friend bool operator==(const Kind&, const Kind&) = default;
};

struct Recorded {
  Kind kind;
  int runs;
  int worst_ppm;
};

/// Runs on real cards, and the errors of their peaks.
struct OnCards {
  Kind kind;
  bool nf4;
  int runs;
  int least_ppm, most_ppm;
};

constexpr OnCards kOnCards[] = {
#include "analysis/card_runs_table.inc"
};

constexpr Recorded kRecorded[] = {
#include "analysis/near_table.inc"
};

Kind kind_of(const Config& c) {
  return {c.model.model_type, c.precision,        c.attention,
          c.checkpointing,    c.lora.has_value(), c.parallel ? 1 + static_cast<int>(c.parallel->strategy) : 0};
}

std::string percent(std::int64_t ppm) {
  const std::int64_t hundredths = hundredths_of_percent(ppm);
  const std::string rest = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + "." + (rest.size() < 2 ? "0" : "") + rest + " %";
}

/// "0.03 % below", "3.47 % above".
std::string side(std::int64_t hundredths) {
  return percent((hundredths < 0 ? -hundredths : hundredths) * 100) + (hundredths < 0 ? " below" : " above");
}

/// Hundredths of a percent, rounded outwards at both ends of the band.
std::string between(std::int64_t least_ppm, std::int64_t most_ppm) {
  const std::int64_t least = least_ppm < 0 ? -hundredths_of_percent(-least_ppm) : least_ppm / 100;
  const std::int64_t most = most_ppm < 0 ? -(-most_ppm / 100) : hundredths_of_percent(most_ppm);
  if (least_ppm == 0 && most_ppm == 0) return "to the byte of what PyTorch counted";
  if (least == most) return side(least) + " what PyTorch counted";
  return "from " + side(least) + " to " + side(most) + " what PyTorch counted";
}

std::string predicted(std::int64_t runs, std::int64_t worst_ppm) {
  return (runs == 1 ? " is predicted " : " are predicted ") +
         (worst_ppm == 0 ? std::string("to the byte") : "within " + percent(worst_ppm));
}

}  // namespace

Near near_runs(const Config& config) {
  const Kind kind = kind_of(config);
  Near near;
  near.described = !described(config).empty();
  for (const Recorded& row : kRecorded) {
    if (row.kind.model_type != kind.model_type) continue;
    near.family_runs += row.runs;
    near.family_worst_ppm = std::max<std::int64_t>(near.family_worst_ppm, row.worst_ppm);
    if (row.kind != kind || near.described) continue;
    near.runs += row.runs;
    near.worst_ppm = std::max<std::int64_t>(near.worst_ppm, row.worst_ppm);
  }
  return near;
}

std::string in_words(const Near& near) {
  const auto count = [](std::int64_t runs) { return std::to_string(runs) + (runs == 1 ? " recorded run" : " recorded runs"); };
  if (near.described)
    return "Part of this run is modelled from published code, and no recorded run of PyTorch stands behind that part; the assumptions name "
           "it.";
  if (near.runs > 0)
    return count(near.runs) + " of PyTorch like this one, by model, precision, attention and checkpointing," +
           predicted(near.runs, near.worst_ppm) + ".";
  if (near.family_runs > 0)
    return "No recorded run of PyTorch is like this one in precision, attention and checkpointing; " + count(near.family_runs) +
           " of its family" + predicted(near.family_runs, near.family_worst_ppm) + ".";
  return "No run of this family was recorded.";
}

CardRuns card_runs(const Config& config) {
  const Kind kind = kind_of(config);
  const bool nf4 = config.lora && config.lora->nf4;
  // Quantised runs were counted on cards; none of an optimizer that is modelled from published code was.
  Config plain = config;
  plain.lora.reset();
  const bool unlike_all = !described(plain).empty();
  struct Group {
    std::int64_t runs = 0, least_ppm = 0, most_ppm = 0;
    void add(const OnCards& row) {
      least_ppm = runs == 0 ? row.least_ppm : std::min<std::int64_t>(least_ppm, row.least_ppm);
      most_ppm = runs == 0 ? row.most_ppm : std::max<std::int64_t>(most_ppm, row.most_ppm);
      runs += row.runs;
    }
  } near, family, all;
  for (const OnCards& row : kOnCards) {
    all.add(row);
    if (row.kind.model_type != kind.model_type) continue;
    family.add(row);
    if (row.kind == kind && row.nf4 == nf4 && !unlike_all) near.add(row);
  }
  const CardRuns::Band band = near.runs > 0 ? CardRuns::Band::near : family.runs > 0 ? CardRuns::Band::family : CardRuns::Band::all;
  const Group& whose = band == CardRuns::Band::near ? near : band == CardRuns::Band::family ? family : all;
  return {near.runs, family.runs, all.runs, band, whose.least_ppm, whose.most_ppm};
}

std::string_view to_string(CardRuns::Band band) {
  switch (band) {
    case CardRuns::Band::near:
      return "near";
    case CardRuns::Band::family:
      return "family";
    default:
      return "all";
  }
}

std::string in_words(const CardRuns& runs) {
  const std::string errors = between(runs.least_ppm, runs.most_ppm);
  const auto peaks = [](std::int64_t count) { return count == 1 ? std::string("its peak is") : std::string("their peaks are"); };
  switch (runs.band) {
    case CardRuns::Band::near:
      return std::to_string(runs.near) + (runs.near == 1 ? " run on a real card is" : " runs on real cards are") + " like it; " +
             peaks(runs.near) + " predicted " + errors + ".";
    case CardRuns::Band::family:
      return "No run on a real card is like it; of its family " + std::to_string(runs.family) + (runs.family == 1 ? " is" : " are") +
             " on record, and " + peaks(runs.family) + " predicted " + errors + ".";
    default:
      return "No run of this family on a real card is on record; of other families " + std::to_string(runs.all) +
             " are, and their peaks are predicted " + errors + ".";
  }
}

}  // namespace whatfits
