// Runs a Program for real: the walk of analysis/replay.h over a device's memory, with a device's kernels.
//
// Nothing about the model, about shapes or about lifetimes is known here: all of it is in the Program.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "analysis/replay.h"
#include "measure/batches.h"
#include "measure/kernels.h"
#include "measure/native_source.h"

namespace whatfits::native {

struct ExecutorOptions {
  Hyperparameters hyper{};
  std::uint64_t seed = 0;                  ///< of the parameters
  bool poison = false;                     ///< freed memory is filled with NaN: who reads a dead tensor is found out
  std::int64_t steps_before = 0;           ///< optimizer steps that a checkpoint's training had taken
  std::uint64_t micro_batches_before = 0;  ///< and micro-batches it had seen
};

/// A tensor that outlives steps, by the name the model gives it ("wte.weight", "exp_avg of wte.weight").
struct NamedTensor {
  std::string name;
  Category category = Category::parameters;
  View view;
};

/// The counters at a place in the script: a line of it, or the border of a block.
struct Point {
  int step = 0;  ///< from 1
  Phase phase = Phase::forward;
  std::int16_t layer = kNoLayer;   ///< the block entered; kNoLayer: the last was left, or a reading
  std::optional<Reading> reading;  ///< absent at a block's border
  Counters counters;
};

class Executor final : public Machine {
 public:
  /// Everything must outlive the executor. `program` is of `config` (its device and allocator are used, no more).
  Executor(const Program& program, const Config& config, NativeSource& source, KernelSet& kernels, Batches& batches,
           const ExecutorOptions& options);

  /// As Replay's: false when memory ran out.
  bool setup() { return walk_.setup(); }
  bool step();

  const Trace& trace() const { return walk_.trace(); }
  const CachingAllocator& allocator() const { return walk_.allocator(); }
  /// Mean loss over the micro-batches of the last step.
  double loss() const { return loss_; }
  /// Optimizer steps taken since training began, a checkpoint's included; a step that a loss scale overflowed in does not count.
  std::int64_t optimizer_steps() const { return optimizer_steps_; }
  /// Micro-batches seen since training began.
  std::uint64_t micro_batches() const { return micro_batches_; }

  /// What is alive of a category, in the order in which it was made. Valid until the walk goes on.
  std::vector<NamedTensor> named(Category category) const;
  /// Parameters, then optimizer state: what a checkpoint holds.
  std::vector<NamedTensor> persistent() const;
  View view(TensorId tensor) const;

  /// Called when optimizer state is born (in step 1, by being filled). True: the callee has written it, from a checkpoint.
  std::function<bool(const std::string& name, const View&)> restore;
  /// Called after each reading of the script, with everything still in place.
  std::function<void(Reading)> on_reading;
  /// Called at every reading and every border of a block, steps only.
  std::function<void(const Point&)> on_point;

 private:
  void op(const OpInfo& op) override;
  void freeing(Address address, Bytes bytes) override;
  void reading(Reading reading) override;
  void layer(std::int16_t layer) override;
  void point(std::int16_t layer, std::optional<Reading> reading) const;
  void make_normal(const View& out, TensorId tensor, double deviation);
  void make_ids(const View& out);
  bool restored(const OpInfo& op, TensorId output);
  bool updates_parameters(OpKind kind) const;
  View workspace() const;
  double scalar_of(const View& view) const;

  const Program& program_;
  const NativeSource& source_;
  KernelSet& kernels_;
  Batches& batches_;
  const ExecutorOptions options_;
  Replay walk_;
  std::vector<StorageId> workspaces_;
  std::vector<View> operands_;  ///< of the operator at work
  double loss_ = 0;
  double loss_sum_ = 0;
  int losses_ = 0;
  std::uint64_t micro_batches_ = 0;
  std::int64_t optimizer_steps_ = 0;
  bool overflowed_ = false;  ///< unscale_ found infinities: this step changes no parameter
  bool updated_ = false;     ///< an optimizer has run in this step
  View found_inf_;
  std::int16_t block_ = kNoLayer;  ///< last one that a point was made for
};

}  // namespace whatfits::native
