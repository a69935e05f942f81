// What a wrapper around a model hangs into its making, forward and backward to train on several cards, in the places PyTorch has for it.
#pragma once

#include <initializer_list>
#include <vector>

#include "torch/tensor.h"
#include "torch/torch.h"

namespace whatfits::torch {

/// Does nothing by itself. Torch::wrapper points to the one in use, or nowhere.
class Wrapper {
 public:
  Wrapper() = default;
  virtual ~Wrapper() = default;
  Wrapper(const Wrapper&) = delete;
  Wrapper& operator=(const Wrapper&) = delete;

  /// A parameter of the model that is being made, as its operators will see it; undefined: one with memory of its own.
  virtual Tensor parameter(const Shape& /*shape*/, DType /*dtype*/) { return {}; }
  /// The model is made; `trainable` are its parameters that want gradients, in order. Nothing else but they and buffers exists yet.
  virtual void wrap(const std::vector<Tensor>& trainable) = 0;
  /// What model.parameters() gives to the optimizer, where that is not what the operators see; else null.
  virtual const std::vector<Tensor>* parameters() const { return nullptr; }
  /// Of these, what this rank updates, in the optimizer's order; null: all.
  virtual const std::vector<Tensor>* partition() const { return nullptr; }
  /// The optimizer's second group of parameters; null: there is one group.
  virtual const std::vector<Tensor>* second_group() const { return nullptr; }

  /// Hooks around the model's forward; of the outputs, those that are defined get hooks of their own for backward.
  virtual void pre_forward() {}
  virtual void post_forward(std::initializer_list<const Tensor*> /*outputs*/) {}
  /// Hooks around the forward of a block, from 0; gives the input that the block shall see.
  virtual Tensor pre_block(std::int16_t /*block*/, const Tensor& x) { return x; }
  virtual void post_block(std::int16_t /*block*/, const Tensor& /*out*/) {}

  /// A hook on a tensor's gradient: the node that made the tensor is about to run. `hook` is its Node::pre_hook.
  virtual void pre_backward(std::int16_t /*hook*/) {}
  /// A hook on AccumulateGrad: this parameter's gradient has been accumulated.
  virtual void gradient_accumulated(const Tensor& /*parameter*/) {}
  /// A callback queued for the end of backward (the engine's queue_callback).
  virtual void backward_ended() {}
};

/// A block called as a module: `forward` between the wrapper's hooks. A checkpoint's second forward runs without them.
template <class Forward>
Tensor call_block(Torch& torch, std::int16_t block, const Tensor& x, const Forward& forward) {
  if (!torch.wrapper || torch.recomputing) return forward(x);
  const Tensor input = torch.wrapper->pre_block(block, x);
  Tensor out = forward(input);
  torch.wrapper->post_block(block, out);
  return out;
}

}  // namespace whatfits::torch
