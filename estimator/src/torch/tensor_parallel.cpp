#include "torch/tensor_parallel.h"

#include <utility>

#include "torch/autograd.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

/// _FromTorchTensor and a redistribution from Partial to Replicate behind it.
struct SumGradient final : Node {
  using Node::Node;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    Tensor sum = torch.empty(OpKind::copy, grads[0].shape(), grads[0].dtype());
    sum.named("gradient, summed over the ranks");
    torch.recorder.op({.kind = OpKind::copy}, {grads[0].id()}, {sum.id()});
    out.push_back(std::move(sum));
  }
};

/// The sum's gradient is every rank's.
struct PassGradient final : Node {
  using Node::Node;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(grads[0]); }
};

/// This rank's piece of the gradient.
struct CutGradient final : Node {
  using Node::Node;
  Shape piece;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    Tensor part = torch.empty(OpKind::copy, piece, grads[0].dtype());
    part.named("gradient of a piece of the logits");
    torch.recorder.op({.kind = OpKind::copy}, {grads[0].id()}, {part.id()});
    out.push_back(std::move(part));
  }
};

}  // namespace

TensorParallel::TensorParallel(Torch& torch, std::int64_t ways) : torch_(torch), ways_(ways) {
  torch.empty(OpKind::copy, {Dim{ways}}, DType::int64).named("the mesh's ranks");
  // The first operator on a DTensor looks up what it gives in a mode of fake tensors, which touches the device twice.
  for (int i = 0; i < 2; ++i) torch.empty(OpKind::copy, {Dim{}}, DType::float32).named("fake tensors' look at the device");
}

void TensorParallel::wrap(const std::vector<Tensor>& trainable) {
  for (const Tensor& p : trainable) {
    (p.rank() > 1 ? cut_ : whole_).push_back(p);
    if (p.rank() > 1) torch_.recorder.program.parameters += static_cast<std::uint64_t>(p.elements() * (ways_ - 1));
  }
}

Tensor replicated(const Tensor& x) {
  if (!x) return {};
  const auto node = make_node<SumGradient>(x.torch(), {&x});
  return attach(alias(x, x.shape(), x.strides(), x.offset()), node);
}

Tensor all_reduced(Tensor x) {
  if (!x) return {};
  const auto node = make_node<PassGradient>(x.torch(), {&x});
  Tensor sum = x.torch().empty(OpKind::copy, x.shape(), x.dtype());
  x.torch().recorder.op({.kind = OpKind::copy}, {x.id()}, {sum.id()});
  x.reset();
  return attach(std::move(sum), node);
}

Tensor gathered(Tensor x, std::int64_t ways) {
  if (!x) return {};
  Torch& torch = x.torch();
  const auto node = make_node<CutGradient>(torch, {&x});
  if (node) node->piece = x.shape();
  Shape rows = x.shape();
  rows[0] = Dim{rows[0].size * ways};
  Tensor pieces = torch.empty(OpKind::copy, rows, x.dtype());
  pieces.named("all-gather of the logits");
  torch.recorder.op({.kind = OpKind::copy}, {x.id()}, {pieces.id()});
  Shape shape = x.shape();
  shape[-1] = Dim{shape[-1].size * ways};
  Tensor whole = torch.empty(OpKind::cat, shape, x.dtype());
  torch.recorder.op({.kind = OpKind::cat}, {pieces.id()}, {whole.id()});
  pieces.reset();
  x.reset();
  return attach(std::move(whole), node);
}

}  // namespace whatfits::torch
