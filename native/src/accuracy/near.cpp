#include "accuracy/near.h"

#include <algorithm>
#include <cstdlib>
#include <limits>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

#include "accuracy/files.h"
#include "accuracy/others.h"
#include "accuracy/published_sweep.h"
#include "analysis/replay.h"
#include "whatfits/estimate.h"
#include "whatfits/request.h"

namespace whatfits::accuracy {
namespace {

struct Runs {
  int count = 0;
  std::int64_t worst_ppm = 0;
};

/// "Precision::amp_bf16": the words of a request are the enumerators' names with other dashes.
std::string enumerator(const std::string& type, std::string_view word) {
  std::string name = type + "::" + std::string(word);
  std::replace(name.begin(), name.end(), '-', '_');
  return name;
}

std::string kind_of(const Config& c) {
  const int strategy = c.parallel ? 1 + static_cast<int>(c.parallel->strategy) : 0;
  return "{\"" + c.model.model_type + "\", " + enumerator("Precision", to_string(c.precision)) + ", " +
         enumerator("Attention", to_string(c.attention)) + ", " + enumerator("Checkpointing", to_string(c.checkpointing)) + ", " +
         (c.lora ? "true" : "false") + ", " + std::to_string(strategy) + "}";
}

/// Rounded up: what is off at all is not exact.
std::int64_t ppm(Bytes predicted, Bytes recorded) {
  const Bytes off = predicted > recorded ? predicted - recorded : recorded - predicted;
  return static_cast<std::int64_t>((off * 1'000'000 + recorded - 1) / recorded);
}

struct Reading {
  std::int64_t predicted = 0;
  std::int64_t counted = 0;
};

/// In millionths of what was counted, rounded outwards; negative where the prediction is below.
struct Band {
  int runs = 0;
  std::int64_t least_ppm = std::numeric_limits<std::int64_t>::max();
  std::int64_t most_ppm = std::numeric_limits<std::int64_t>::min();

  void add(const Reading& one) {
    const std::int64_t scaled = (one.predicted - one.counted) * 1'000'000;
    const std::int64_t cut = scaled / one.counted;  // towards zero
    const std::int64_t rest = scaled % one.counted;
    least_ppm = std::min(least_ppm, rest < 0 ? cut - 1 : cut);
    most_ppm = std::max(most_ppm, rest > 0 ? cut + 1 : cut);
  }
};

}  // namespace

std::string near_table(const std::string& folder) {
  std::map<std::string, Runs> kinds;
  for (const std::string& file : files_of(folder, "torch", ".jsonl")) {
    with_lines(folder, file, [&](const nlohmann::json& fixture) {
      if (fixture.at("truth").at("verdict") != "fits") return;  // where it fails is compared elsewhere
      const Config config = parse_request(fixture.at("request")).config;
      const Counters predicted = replay(record(config), config, {.steps = static_cast<int>(config.steps)}).peak;
      Counters recorded;
      for (const auto& step : fixture.at("truth").at("steps")) {
        recorded.allocated = std::max(recorded.allocated, step.at("peak").at("allocated").get<Bytes>());
        recorded.reserved = std::max(recorded.reserved, step.at("peak").at("reserved").get<Bytes>());
      }
      Runs& runs = kinds[kind_of(config)];
      ++runs.count;
      runs.worst_ppm = std::max({runs.worst_ppm, ppm(predicted.allocated, recorded.allocated), ppm(predicted.reserved, recorded.reserved)});
    });
  }
  std::string text = "// Written by accuracy_table --near from fixtures/torch/*.jsonl; do not edit.\n// clang-format off\n";
  for (const auto& [kind, runs] : kinds)
    text += "{" + kind + ", " + std::to_string(runs.count) + ", " + std::to_string(runs.worst_ppm) + "},\n";
  return text + "// clang-format on\n";
}

std::string card_runs_table(const std::string& folder) {
  std::map<std::string, Band> kinds;
  const auto add = [&kinds](const Config& config, const std::vector<Reading>& readings) {
    if (readings.empty() || config.parallel) return;
    Band& band = kinds[kind_of(config) + (config.lora && config.lora->nf4 ? ", true" : ", false")];
    ++band.runs;
    for (const Reading& one : readings) band.add(one);
  };
  with_json(folder, "published/gpt2-a40.json", [&](const nlohmann::json& file) {
    for (const SweepRun& run : read_sweep(file).runs) {
      const Counters peak = estimate(run.config).trace.peak;
      std::vector<Reading> readings;
      if (run.allocated) readings.push_back({static_cast<std::int64_t>(peak.allocated), run.allocated->bytes});
      if (run.reserved) readings.push_back({static_cast<std::int64_t>(peak.reserved), run.reserved->bytes});
      add(run.config, readings);
    }
  });
  for (const OthersRow& row : compare_others(folder).rows) {
    if (row.grade != "A") continue;
    std::vector<Reading> readings;
    for (const OthersReading& one : row.readings) {
      if (one.value == "peak.allocated" || one.value == "peak.reserved") readings.push_back({one.predicted, one.measured});
    }
    add(row.request, readings);
  }
  std::string text = "// Written by accuracy_table --cards from fixtures/published/; do not edit.\n// clang-format off\n";
  for (const auto& [kind, band] : kinds) {
    text += "{" + kind + ", " + std::to_string(band.runs) + ", " + std::to_string(band.least_ppm) + ", " + std::to_string(band.most_ppm) +
            "},\n";
  }
  return text + "// clang-format on\n";
}

}  // namespace whatfits::accuracy
