// One measured run.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <vector>

#include "measure/checkpoint.h"
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

/// What the driver says at a marked moment. Nothing: it could not be read.
struct Stage {
  std::string name;                   ///< "before", "context", "cublas", "kernels", "warmed up", "trained"
  std::optional<Bytes> runtime_used;  ///< total less free of cudaMemGetInfo; it would create a context, so not before there is one
  std::optional<Bytes> nvml_used;     ///< of the whole card
  Bytes reserved = 0;                 ///< the allocator's segments, in whole granules
};

/// What only a card has.
struct CardResult {
  int compute_capability = 0;  ///< 8.6 is 86
  int multiprocessors = 0;
  Bytes total = 0;
  int driver_cuda = 0;  ///< 13000 is 13.0
  int runtime_cuda = 0;
  std::optional<std::string> driver;
  std::optional<int> processes;  ///< on the card before this one
  /// How far cudaMemGetInfo moved for an allocation of so many bytes.
  struct Calibration {
    Bytes requested = 0, moved = 0;
  };
  std::vector<Calibration> calibration;
  Bytes granule = 0;  ///< what one byte takes
  std::vector<Stage> stages;
  // used = context + cublas + kernels + scratch + segments + residual
  std::int64_t context = 0, cublas = 0, kernels = 0, scratch = 0, segments = 0, residual = 0;
  int runs = 0;
  bool runs_identical = true;  ///< counters of all of them, and losses to the bit
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
  std::optional<CardResult> card;    ///< of a run on CUDA
  std::vector<std::string> suspect;  ///< reasons to doubt the figures
  double flops = 0;                  ///< of the products of one step, as multiplications and additions
  double step_bytes = 0;             ///< read and written by one step's other operators
  double gemm_peak = 0;              ///< this machine's, measured after the run; 0 if not measured
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

/// What a run on any device is made of; see run_measured.
class Training {
 public:
  /// Records, replays, reads data and checkpoint and looks whether files can be written: all that can go wrong before memory is taken.
  Training(const Config& config, const MeasureOptions& options);
  /// The whole run. `result` gets counters, points, losses and whether they are the predicted ones.
  void run(NativeSource& source, KernelSet& kernels, RunResult& result, const std::function<void(const StepResult&)>& on_step) const;

  const Program& program() const { return program_; }
  const Trace& predicted() const { return predicted_; }

 private:
  Config config_;
  MeasureOptions options_;
  Program program_;
  Trace predicted_;
  std::unique_ptr<Batches> batches_;
  std::unique_ptr<Checkpoint> checkpoint_;
};

/// The fixture of a run (fixtures/schema.json).
Json fixture_json(const RunResult& result, const MeasureOptions& options);

}  // namespace whatfits::native
