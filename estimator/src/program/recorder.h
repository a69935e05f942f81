// Writes a Program down while the training script runs.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/program.h"

namespace whatfits {

class Recorder {
 public:
  /// `block_runs`: about how often a block will run. Only room is made for it: growing by copying would cost as much as recording.
  explicit Recorder(std::size_t block_runs = 0);

  Program program;

  /// A storage of `bytes`, asked for by the operator at work. Its tensor follows with tensor().
  StorageId alloc(Bytes bytes, OpKind op);
  /// A storage that has no memory yet: alloc(StorageId) gives it some, and may again after a free.
  StorageId declare(Bytes bytes, OpKind op);
  void alloc(StorageId storage) { push(EventKind::alloc, storage); }
  void free(StorageId storage);
  /// The number of this layout; equal ones have one number. Program::layouts keeps the place of each for good.
  LayoutId layout(const Layout& layout);
  TensorId tensor(const TensorInfo& info);
  /// Runs a kernel. Operands are inputs, outputs, scratch, in this order.
  void op(OpInfo info, std::initializer_list<TensorId> inputs, std::initializer_list<TensorId> outputs,
          std::initializer_list<TensorId> scratch = {});
  void op(OpInfo info, const std::vector<TensorId>& operands);

  std::uint8_t stream = 0;  ///< the CUDA stream at work: storages are allocated on it

  void reading(Reading reading) { push(EventKind::reading, static_cast<std::uint32_t>(reading)); }
  void phase(Phase phase);
  Phase phase() const { return phase_; }
  void layer(std::int16_t layer);
  std::int16_t layer() const { return layer_; }
  /// Operators from here on run a second time.
  bool recomputing = false;

  std::uint32_t label(std::string_view text);
  StorageInfo& storage(StorageId id) { return program.storages[id]; }

  void end_setup() { program.setup_end = program.events.size(); }
  void end_first_step() { program.first_end = program.repeat_begin = program.events.size(); }
  /// Of a run whose second step is not the repeated one either.
  void end_second_step() { program.repeat_begin = program.events.size(); }
  /// Call after the step to be repeated: finds what it takes over from the one before it.
  void finish();

 private:
  void at_work(OpInfo& info) const;
  void push(EventKind kind, std::uint32_t index) { program.events.push_back({kind, index}); }
  Phase phase_ = Phase::warmup;
  std::int16_t layer_ = kNoLayer;
  // Every tensor of a recording asks for its label and its layout: open tables, at most half full.
  std::vector<std::uint32_t> label_index_;
  std::vector<LayoutId> layout_index_;
};

}  // namespace whatfits
