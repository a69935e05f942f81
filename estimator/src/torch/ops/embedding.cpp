#include "torch/autograd.h"
#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

/// Many indices are sorted first, so that each row of the table is summed by one block (embedding_dense_backward_cuda).
Tensor dense_backward(Torch& torch, const Tensor& grad, const Tensor& indices, const Shape& table) {
  const auto sizes =
      embedding_backward(indices.elements(), table[0].size, table[1].size, size_of(grad.dtype()), torch.device.compute_capability);
  constexpr OpKind op = OpKind::embedding_backward;
  const auto scratch = [&](Bytes bytes, const char* label) { return torch.scratch(op, bytes).named(label); };
  const auto zeros = [&] {
    Tensor gradient = torch.empty(op, table, grad.dtype());
    torch.recorder.op({.kind = OpKind::fill}, {}, {gradient.id()});
    return gradient;
  };
  if (!sizes.sorted) {
    Tensor gradient = zeros();
    torch.recorder.op({.kind = op}, {grad.id(), indices.id()}, {gradient.id()});
    return gradient;
  }
  const Tensor sorted = scratch(sizes.indices_bytes, "indices, sorted");
  const Tensor order = scratch(sizes.indices_bytes, "order of the indices");
  {
    const Tensor positions = scratch(sizes.indices_bytes, "positions to sort along");
    scratch(sizes.sort_scratch, "radix sort scratch");
  }
  Tensor gradient = zeros();
  const Tensor starts = scratch(sizes.indices_bytes, "segment starts");
  const Tensor segments = scratch(8, "number of segments");
  {
    const Tensor keys = scratch(sizes.indices_bytes, "unique indices");
    scratch(sizes.unique_scratch, "unique scratch");
  }
  const Tensor per_segment = scratch(sizes.segment_bytes, "partials per segment");
  const Tensor offsets = scratch(sizes.segment_bytes, "partials before each segment");
  scratch(sizes.scan_scratch, "scan scratch");
  const Tensor partials = scratch(8, "number of partial segments");
  const Tensor partial_offsets = scratch(sizes.partial_offsets, "partial segment offsets");
  const Tensor partial_sums = scratch(sizes.partial_sums, "partial sums per segment");
  torch.recorder.op({.kind = op}, {grad.id(), indices.id()}, {gradient.id()}, {partial_sums.id()});
  return gradient;
}

struct EmbeddingBackward0 final : Node {
  using Node::Node;
  Saved indices;
  Shape table;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor i = indices.unpack();
    out.push_back(dense_backward(torch, contiguous(grads[0]), i, table));
  }
  void release() override { indices.reset(); }
};

}  // namespace

Tensor embedding(const Tensor& weight, const Tensor& indices) {
  if (!weight || !indices) return {};
  Torch& torch = weight.torch();
  const auto node = make_node<EmbeddingBackward0>(torch, {&weight});
  if (node) {
    node->indices.save(indices);
    node->table = weight.shape();
  }
  if (torch.stopped) return {};
  Shape shape = indices.shape();
  shape[shape.rank++] = weight.size(1);
  Tensor out = torch.empty(OpKind::embedding, shape, weight.dtype());
  torch.recorder.op({.kind = OpKind::embedding}, {weight.id(), indices.id()}, {out.id()});
  return attach(std::move(out), node);
}

}  // namespace whatfits::torch
