// The graph that forward leaves behind, and the engine that walks it back in PyTorch's order.
//
// Source of the order: torch/csrc/autograd/engine.cpp, input_buffer.cpp and functions/accumulate_grad.cpp of PyTorch 2.6.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

#include "torch/pool.h"
#include "torch/ref.h"
#include "torch/tensor.h"
#include "torch/torch.h"

namespace whatfits::torch {

using Grads = PoolVector<Tensor>;

struct Edge {
  Ref<Node> node;          ///< null: nobody wants this gradient
  std::uint8_t input = 0;  ///< which of the node's inputs it is
};

inline constexpr std::int16_t kNoPreHook = -1;

/// One operator's part in backward.
struct Node : Pooled {
  explicit Node(Torch& torch) : sequence(torch.next_sequence++) {}
  virtual ~Node() = default;
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  /// Gradients of the operator's inputs, one per next edge, from those of its outputs.
  virtual void apply(Torch& torch, Grads& grads, Grads& out) = 0;
  /// Lets the saved tensors go: the operator's inputs by name, then its outputs by name.
  virtual void release() {}
  bool wants(std::size_t i) const { return static_cast<bool>(next[i].node); }

  std::uint32_t refs = 0;
  std::uint64_t sequence;
  std::int16_t layer = kNoLayer;       ///< block that made it, so that backward's tensors belong somewhere
  std::int16_t pre_hook = kNoPreHook;  ///< what a wrapper's hook on an output's gradient is told
  PoolVector<Edge> next;
  /// What each of the operator's outputs looked like, of the program's layouts; a gradient that comes in differently is summed or
  /// cast to it.
  PoolVector<const Layout*> outputs;

  // While backward runs.
  Grads buffer;
  int dependencies = 0;
  bool seen = false;
};

/// Puts the gradient where the optimizer finds it.
struct AccumulateGrad final : Node {
  AccumulateGrad(Torch& torch, Tensor variable_);
  ~AccumulateGrad() override;
  void apply(Torch& torch, Grads& grads, Grads& out) override;
  Tensor variable;

 private:
  void accumulate_into(Torch& torch, Tensor& place, const Tensor& grad) const;
};

/// Where the gradient of `t` goes.
Edge gradient_edge(const Tensor& t);

/// A node for an operator with these inputs, or null when none of them is part of a graph that is being recorded.
template <class N>
Ref<N> make_node(Torch& torch, std::initializer_list<const Tensor*> inputs) {
  if (!torch.grad_enabled || torch.stopped) return nullptr;
  bool wanted = false;
  for (const Tensor* t : inputs) wanted = wanted || t->requires_grad();
  if (!wanted) return nullptr;
  Ref<N> node(new N(torch));
  node->layer = torch.recorder.layer();
  node->next.reserve(inputs.size());
  for (const Tensor* t : inputs) node->next.push_back(gradient_edge(*t));
  return node;
}

/// Makes `out` the next output of `node` (if there is one) and gives it back.
Tensor attach(Tensor out, const Ref<Node>& node);
template <class N>
Tensor attach(Tensor out, const Ref<N>& node) {
  return attach(std::move(out), Ref<Node>(node.get()));
}

struct CheckpointPlace;

/// In the ledger a temporary that backward needs is an activation.
void kept_for_backward(const Tensor& tensor);

/// A tensor kept for backward (SavedVariable). Under a checkpoint it is a numbered place that recomputation fills.
class Saved {
 public:
  Saved();
  ~Saved();
  Saved(const Saved&) = delete;
  Saved& operator=(const Saved&) = delete;
  void save(const Tensor& input);
  /// Of an operator's own output: without its graph, which would keep itself alive.
  void save_output(const Tensor& output) { save(detach(output)); }
  Tensor unpack() const;
  void reset();

 private:
  Tensor tensor_;
  Ref<CheckpointPlace> place_;
};

/// loss.backward()
void backward(const Tensor& loss);
/// torch.autograd.backward(outputs, gradients), from within another backward or not. Outputs outside graphs are left out.
struct Root {
  const Tensor* output;
  const Tensor* gradient;
};
void backward_from(std::initializer_list<Root> roots);

}  // namespace whatfits::torch
