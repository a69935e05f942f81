// One measured run.
#pragma once

#include <functional>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/executor.h"
#include "measure/measure.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"

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
  std::string device;  ///< the processor or card that computed
  std::string program_hash;
  std::string trace_hash;  ///< of the prediction, over as many steps as ran
  Trace measured;
  Trace predicted;
  bool equal = false;  ///< every reading of both
  std::vector<StepResult> steps;
  std::vector<Point> points;  ///< of the first two steps
  Bytes baseline_rss = 0;     ///< resident before memory was taken
  Bytes peak_rss = 0;
  std::string kernels;
  double flops = 0;       ///< of the products of one step, as multiplications and additions
  double step_bytes = 0;  ///< read and written by one step's other operators
  double gemm_peak = 0;   ///< this machine's, measured after the run; 0 if not measured
  double copy_peak = 0;
};

/// What a process takes besides its segments: code, thread stacks, packing buffers of products. The peak of its resident size is this
/// plus the segments, within 3 % (fixtures/native/).
inline constexpr Bytes kProcess = 32 * MiB;

/// What the process took besides its memory before the run and its segments.
std::int64_t unexplained(const RunResult& result);

/// The run of `config` on the device of `options.on`, config.steps steps. Throws std::runtime_error (Impossible for what can be known
/// before) with one line for a person, or std::bad_alloc. `on_step` is called after each step.
RunResult run_measured(const Config& config, const MeasureOptions& options, const std::function<void(const StepResult&)>& on_step);

/// The fixture of a run (fixtures/schema.json).
Json fixture_json(const RunResult& result, const MeasureOptions& options);

}  // namespace whatfits::native
