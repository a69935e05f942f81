#include "accuracy/near.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <vector>

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

}  // namespace

std::string near_table(const std::string& folder) {
  std::map<std::string, Runs> kinds;
  for (const auto& entry : std::filesystem::directory_iterator(folder + "/torch")) {
    if (entry.path().extension() != ".jsonl") continue;
    std::ifstream in(entry.path());
    for (std::string line; std::getline(in, line);) {
      if (line.empty()) continue;
      const auto fixture = nlohmann::json::parse(line);
      if (fixture.at("truth").at("verdict") != "fits") continue;  // where it fails is compared elsewhere
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
    }
  }
  std::string text = "// Written by accuracy_table --near from fixtures/torch/*.jsonl; do not edit.\n// clang-format off\n";
  for (const auto& [kind, runs] : kinds)
    text += "{" + kind + ", " + std::to_string(runs.count) + ", " + std::to_string(runs.worst_ppm) + "},\n";
  return text + "// clang-format on\n";
}

}  // namespace whatfits::accuracy
