// How wrong is it: predictions beside what was measured, fixture by fixture, counter by counter.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "whatfits/config.h"

namespace whatfits::accuracy {

/// One counter of one fixture. In bytes, except for verdicts (1 fits, 0 does not), steps, retries and numbers of parameters.
struct Row {
  std::string group;                      ///< "torch/gpt2-from-scratch", "torch/huggingface llama"
  std::string fixture;                    ///< "torch/gpt2-from-scratch: 4090-b11-t1024"
  std::string counter;                    ///< "steps[1].peak.allocated"
  std::optional<std::int64_t> predicted;  ///< absent: the prediction has no such reading
  std::optional<std::int64_t> measured;   ///< absent: the measurement has no such reading
  std::int64_t tolerance = 0;             ///< half a unit of the last digit, where the source printed a rounded value
  std::int64_t error() const { return predicted.value_or(0) - measured.value_or(0); }
  bool agrees() const;
};

/// Rows of one line of fixtures/torch/*.jsonl ({"id", "request", "truth"}): every counter that PyTorch was asked for, tolerance 0.
/// Throws std::runtime_error if the request is not valid.
std::vector<Row> compare_torch_run(const std::string& file, const nlohmann::json& fixture);

/// Rows of fixtures/published/gpt2-a40.json: the figures of two training steps at batch 8 and of the batch sweep.
std::vector<Row> compare_published(const std::string& file, const nlohmann::json& article);

/// Ids of torch fixtures that are known not to agree in every counter, with what is known of the cause (fixtures/torch/inexact.json).
std::map<std::string, std::string> known_inexact(const std::string& folder);

/// What one run's peak was measured to be, for formulas to be set beside it.
struct MeasuredPeak {
  std::string fixture;
  Config config;
  std::int64_t allocated = 0;
};

/// Peaks of the runs that every formula is meant for: GPT-2 from scratch in fp32, eager attention, AdamW, nothing recomputed or
/// accumulated, and no failure. Recorded ones of torch/, and those of the published sweep.
std::vector<MeasuredPeak> plain_peaks(const std::string& folder);

/// Everything in a folder of fixtures: torch/*.jsonl and published/gpt2-a40.json. Throws std::runtime_error for a file that is not
/// what it should be.
std::vector<Row> compare_all(const std::string& folder);

}  // namespace whatfits::accuracy
