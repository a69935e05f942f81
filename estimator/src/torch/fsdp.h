// torch.distributed.fsdp.fully_shard (FSDP2) on each block of a model, then on the model, with its defaults: every parameter cut along
// its first dimension, gathered a group at a time before it is needed, given back after it, gradients reduced and scattered.
//
// Sources: torch/distributed/fsdp/_fully_shard/*.py of PyTorch 2.6, and event traces of rank 0 over a fake process group
// (tests/oracle/parallel_truth.py). What communication needs comes from pools of streams of its own.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "torch/torch.h"
#include "torch/wrapper.h"

namespace whatfits::torch {

/// Rank 0, which has a whole piece of every parameter.
class FullyShard final : public Wrapper {
 public:
  /// `mixed`: MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32) over float32 parameters.
  /// `reshard`: reshard_after_forward, whether a block's parameters are given back between its forward and its backward.
  FullyShard(Torch& torch, std::int64_t gpus, std::int64_t blocks, bool mixed, bool reshard);

  Tensor parameter(const Shape& shape, DType dtype) override;
  void wrap(const std::vector<Tensor>& trainable) override;
  const std::vector<Tensor>* parameters() const override { return &shards_; }

  void pre_forward() override;
  void post_forward(std::initializer_list<const Tensor*> outputs) override;
  Tensor pre_block(std::int16_t block, const Tensor& x) override;
  void post_block(std::int16_t block, const Tensor& out) override;
  void pre_backward(std::int16_t group) override;
  void post_backward(std::size_t group);  ///< all gradients of a group are there: the gradients of its input have been computed
  void backward_ended() override;

 private:
  struct Parameter {
    Tensor shard;               ///< what the optimizer updates
    Tensor whole;               ///< what operators see; its storage has memory between all-gather and reshard only
    std::int64_t elements = 0;  ///< of a shard
  };
  enum class State : std::uint8_t { idle, pre_backward, post_backward };
  struct Group {
    std::vector<Parameter> parameters;
    Tensor gathered;  ///< an all-gather's result that has not been copied out
    bool unsharded = false;
    State state = State::idle;
    std::vector<std::size_t> calls;  ///< positions in `forward_order_`
  };

  void unshard(Group& group);
  void wait_for_unshard(Group& group, bool forward);
  void reshard(Group& group);
  void reduce(Group& group, std::vector<Tensor>& gradients, const std::vector<Parameter*>& owners);
  void called(std::size_t group, const Tensor& out);

  Torch& torch_;
  const std::int64_t gpus_;
  const bool mixed_;
  const bool reshard_after_forward_;
  std::vector<Group> groups_;  ///< the model's own, then the blocks'
  std::vector<Tensor> shards_;
  std::vector<std::size_t> forward_order_;
  Tensor kept_gather_;   ///< the last all-gather in forward: the next one must not write over it while it is copied out
  Tensor reduce_input_;  ///< of the last reduce-scatter, until the next one or the end of backward
};

}  // namespace whatfits::torch
