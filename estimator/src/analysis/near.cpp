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

}  // namespace whatfits
