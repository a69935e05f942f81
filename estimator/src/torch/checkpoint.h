// torch.utils.checkpoint with use_reentrant=False: a block keeps its input only, and runs again when backward needs the rest. A selective
// one keeps the results of products and of fused attention as well, and takes them from there when it runs again.
//
// Source: torch/utils/checkpoint.py of PyTorch 2.6 (_CheckpointFrame, _checkpoint_hook, _recomputation_hook, and for selective ones
// _CachingTorchDispatchMode and _CachedTorchDispatchMode), early stop on.
#pragma once

#include <cstdint>
#include <functional>
#include <initializer_list>
#include <vector>

#include "torch/ref.h"
#include "torch/tensor.h"
#include "torch/torch.h"

namespace whatfits::torch {

struct CheckpointPlace;

/// One call under a checkpoint. Alive as long as a saved tensor of its graph is.
struct CheckpointFrame {
  CheckpointFrame(std::function<Tensor(const Tensor&)> run_, Tensor input_) : run(std::move(run_)), input(std::move(input_)) {}
  ~CheckpointFrame();
  CheckpointFrame(const CheckpointFrame&) = delete;
  CheckpointFrame& operator=(const CheckpointFrame&) = delete;
  std::uint32_t refs = 0;
  std::function<Tensor(const Tensor&)> run;
  Tensor input;
  bool autocast_enabled = false;
  DType autocast_dtype = DType::bfloat16;
  std::vector<CheckpointPlace*> places;  ///< in the order in which forward saved; null once let go
  std::size_t filled = 0;
  bool recomputed = false;
  bool selective = false;
  std::vector<Tensor> kept;  ///< by a selective one: results in the order in which forward made them
  std::size_t taken = 0;     ///< of these, by the block that runs again

  Ref<CheckpointPlace> pack();
  void refill(Torch& torch, const Tensor& saved);
  void recompute(Torch& torch);
};

/// Where a saved tensor will be once the block has run again.
struct CheckpointPlace : Pooled {
  CheckpointPlace(CheckpointFrame& frame_, std::size_t index_) : frame(&frame_), index(index_) {}
  ~CheckpointPlace() { frame->places[index] = nullptr; }
  std::uint32_t refs = 0;
  Ref<CheckpointFrame> frame;
  std::size_t index;
  Tensor value;
  /// Runs the block again if it has not been. The value is given away: it lives as long as the caller needs it.
  Tensor unpack();
};

/// The operators of a selective one are those that create_selective_checkpoint_contexts is given in the script: mm, addmm, bmm, baddbmm,
/// flash and memory-efficient attention.
Tensor checkpoint(const Tensor& x, std::function<Tensor(const Tensor&)> run, bool selective = false);

/// Around an operator of that list: in forward its results are kept; where the block runs again they come from there, the operator does
/// not run, and recall() is true. Undefined results are none.
bool recall(Torch& torch, std::initializer_list<Tensor*> results);
void keep(Torch& torch, std::initializer_list<const Tensor*> results);
/// Inside a selective checkpoint a dispatch mode watches every operator. Some of PyTorch's code then does out of place what it otherwise
/// does in place.
bool dispatch_mode_enabled(const Torch& torch);

/// The same with use_reentrant=True (CheckpointFunction): nothing is recorded in forward; backward runs the block again with its own
/// graph and walks that within its walk. `x` must be part of a graph for the block's parameters to get gradients.
Tensor checkpoint_reentrant(const Tensor& x, std::function<Tensor(const Tensor&)> run);

/// The same of a block that takes more than `x` by position, or gives a second result.
/// `positional` is let go with the node's saved tensors, once it has been walked; what `run` itself holds lives as long as the node.
/// `second` gets the second result. It is a root of the block's own backward, with a gradient of zeros where nobody used it.
using BlockOfTwo = std::function<Tensor(const Tensor& x, const Tensor& positional, Tensor& second)>;
Tensor checkpoint_reentrant(const Tensor& x, const Tensor& positional, Tensor& second, BlockOfTwo run);

}  // namespace whatfits::torch
