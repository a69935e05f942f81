#include <utility>

#include "torch/autograd.h"
#include "torch/kernel_sizes.h"
#include "torch/ops.h"
#include "torch/tensor_parallel.h"

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

/// Of a table cut along its rows: embedding_dense_backward is told of the whole table's, and DTensor takes that for a gradient that is
/// the same on every rank. It goes to the piece's .grad as it is.
struct VocabularyEmbeddingBackward final : Node {
  using Node::Node;
  Saved indices;
  Shape table;
  Edge leaf;
  void apply(Torch& torch, Grads& grads, Grads&) override {
    const Tensor i = indices.unpack();
    Grads gradient;
    gradient.push_back(dense_backward(torch, contiguous(grads[0]), i, table));
    Grads none;
    if (leaf.node) leaf.node->apply(torch, gradient, none);
  }
  void release() override { indices.reset(); }
};

}  // namespace

Tensor vocabulary_embedding(const Tensor& rows, const Tensor& indices, std::int64_t ways) {
  if (!rows || !indices) return {};
  Torch& torch = rows.torch();
  const auto node = make_node<VocabularyEmbeddingBackward>(torch, {&rows});
  if (node) {
    node->indices.save(indices);
    node->table = rows.shape();
    node->table[0] = Dim{rows.size(0).size * ways, letters::V};
    node->leaf = std::exchange(node->next[0], Edge{});
  }
  if (torch.stopped) return {};
  constexpr OpKind op = OpKind::embedding;
  // MaskBuffer: tokens of other ranks' rows are read from row 0 and then set to zero.
  Tensor mask, out;
  {
    Tensor below = torch.empty(op, indices.shape(), DType::boolean);
    Tensor above = torch.empty(op, indices.shape(), DType::boolean);
    mask = torch.empty(op, indices.shape(), DType::boolean).named("tokens of other ranks");
    below.reset();
    above.reset();
  }
  Tensor copied = torch.empty(OpKind::copy, indices.shape(), indices.dtype());
  Tensor local = torch.empty(op, indices.shape(), indices.dtype());
  copied.reset();
  Shape shape = indices.shape();
  shape[shape.rank++] = rows.size(1);
  out = torch.empty(op, shape, rows.dtype());
  torch.recorder.op({.kind = op}, {rows.id(), local.id()}, {out.id()}, {mask.id()});
  local.reset();
  mask.reset();
  return all_reduced(attach(std::move(out), node));
}

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
