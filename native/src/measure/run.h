// One measured run.
#pragma once

#include <functional>
#include <iosfwd>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/measure.h"
#include "whatfits/estimate.h"

namespace whatfits::native {

/// Something that makes the run impossible; what() is one line for a person.
struct Impossible : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct StepResult {
  std::int64_t step = 0;  ///< optimizer steps since training began
  double loss = 0;
  double seconds = 0;
  double tokens_per_second = 0;
};

struct RunResult {
  Config config;
  std::string program_hash;
  std::string trace_hash;  ///< of the prediction, over as many steps as ran
  Trace measured;
  Trace predicted;
  bool equal = false;  ///< every reading of both
  std::vector<StepResult> steps;
  Bytes baseline_rss = 0;  ///< resident before memory was taken
  Bytes peak_rss = 0;
  std::string kernels;
  double flops = 0;       ///< of the products of one step, as multiplications and additions
  double step_bytes = 0;  ///< read and written by one step's other operators
  double gemm_peak = 0;   ///< this machine's, measured after the run; 0 if not measured
  double copy_peak = 0;
};

/// Beyond the segments: library code, packing buffers of products, stacks.
inline constexpr Bytes kOverhead = 64 * MiB;

/// Throws Impossible. `on_step` is called after each step.
RunResult run_on_cpu(const Config& config, const MeasureOptions& options, const std::function<void(const StepResult&)>& on_step);

/// The fixture of a run (fixtures/schema.json).
Json fixture_json(const RunResult& result, const MeasureOptions& options);

}  // namespace whatfits::native
