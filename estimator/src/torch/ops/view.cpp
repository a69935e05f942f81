// Other looks at the same memory. They cost nothing, but backward passes through them, and there a layout may force a copy.
#include <algorithm>
#include <span>
#include <vector>

#include "torch/autograd.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

/// view, and the view at the end of a product (UnsafeViewBackward0).
struct ViewBackward final : Node {
  using Node::Node;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(reshape(grads[0], *shape)); }
};

struct TransposeBackward final : Node {
  using Node::Node;
  int a = 0;
  int b = 0;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(transpose(grads[0], a, b)); }
};

struct ExpandBackward final : Node {
  using Node::Node;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(grads[0].shape() == *shape ? grads[0] : sum_to(grads[0], *shape)); }
};

struct CloneBackward final : Node {
  using Node::Node;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(grads[0]); }
};

struct SplitBackward final : Node {
  using Node::Node;
  int dim = 0;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    for (std::size_t i = 0; i < grads.size(); ++i) {
      if (!grads[i]) grads[i] = full(torch, outputs[i]->shape, outputs[i]->dtype, 0);
    }
    Tensor whole = torch.empty(OpKind::cat, *shape, grads[0].dtype());
    std::vector<TensorId> operands;
    for (const Tensor& grad : grads) operands.push_back(grad.id());
    operands.push_back(whole.id());
    torch.recorder.op(
        {.kind = OpKind::cat, .inputs = static_cast<std::uint16_t>(grads.size()), .outputs = 1, .scalar = static_cast<double>(dim)},
        operands);
    out.push_back(std::move(whole));
  }
};

/// The parts of `x` along `dim`, of these lengths in turn: one node for all of them.
void split(const Tensor& x, int dim, std::span<const Dim> lengths, std::span<Tensor> parts) {
  if (!x) return;
  const auto node = make_node<SplitBackward>(x.torch(), {&x});
  if (node) {
    node->dim = dim;
    node->shape = &x.shape();
  }
  std::int64_t offset = x.offset();
  for (std::size_t i = 0; i < lengths.size(); ++i) {
    Shape part = x.shape();
    part[dim] = lengths[i];
    parts[i] = attach(alias(x, part, x.strides(), offset), node);
    offset += lengths[i].size * x.stride(dim);
  }
}

Tensor copy_to(const Tensor& x, const Strides& strides) {
  Torch& torch = x.torch();
  const auto node = make_node<CloneBackward>(torch, {&x});
  Tensor out = torch.empty_strided(OpKind::copy, x.shape(), strides, x.dtype());
  torch.recorder.op({.kind = OpKind::copy}, {x.id()}, {out.id()});
  return attach(std::move(out), node);
}

}  // namespace

Tensor view(const Tensor& x, const Shape& shape) {
  if (!x) return {};
  Strides strides{};
  if (!view_strides(x.shape(), x.strides(), shape, strides)) return {};
  const auto node = make_node<ViewBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  return attach(alias(x, shape, strides, x.offset()), node);
}

Tensor reshape(const Tensor& x, const Shape& shape) {
  if (!x) return {};
  Strides strides{};
  if (view_strides(x.shape(), x.strides(), shape, strides)) return view(x, shape);
  return view(copy_to(x, contiguous_strides(x.shape())), shape);
}

Tensor transpose(const Tensor& x, int a, int b) {
  if (!x) return {};
  const auto node = make_node<TransposeBackward>(x.torch(), {&x});
  if (node) {
    node->a = a;
    node->b = b;
  }
  Shape shape = x.shape();
  Strides strides = x.strides();
  std::swap(shape[a], shape[b]);
  std::swap(strides[static_cast<std::size_t>(a)], strides[static_cast<std::size_t>(b)]);
  return attach(alias(x, shape, strides, x.offset()), node);
}

Tensor t(const Tensor& x) { return transpose(x, 0, 1); }

Tensor unsqueeze(const Tensor& x, int dim) {
  if (!x) return {};
  if (dim < 0) dim += x.rank() + 1;
  const auto node = make_node<ViewBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t stride = dim < x.rank() ? x.size(dim).size * x.stride(dim) : 1;
  for (int i = shape.rank++; i > dim; --i) {
    shape[i] = shape[i - 1];
    strides[static_cast<std::size_t>(i)] = strides[static_cast<std::size_t>(i - 1)];
  }
  shape[dim] = Dim{};
  strides[static_cast<std::size_t>(dim)] = stride;
  return attach(alias(x, shape, strides, x.offset()), node);
}

Tensor expand(const Tensor& x, const Shape& shape) {
  if (!x) return {};
  const auto node = make_node<ExpandBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  Strides strides = x.strides();
  for (int i = 0; i < shape.rank; ++i) {
    if (x.size(i).size == 1 && shape[i].size != 1) strides[static_cast<std::size_t>(i)] = 0;
  }
  return attach(alias(x, shape, strides, x.offset()), node);
}

Tensor contiguous(const Tensor& x) {
  if (!x || x.is_contiguous()) return x;
  return copy_to(x, contiguous_strides(x.shape()));
}

Tensor clone(const Tensor& x) {
  if (!x) return {};
  return copy_to(x, like_strides(x.shape(), x.strides()));
}

Tensor slice(const Tensor& x, int dim, Dim length) {
  if (!x) return {};
  Shape shape = x.shape();
  shape[dim] = length;
  return alias(x, shape, x.strides(), x.offset());
}

std::array<Tensor, 3> split3(const Tensor& x, int dim) {
  if (!x) return {};
  Dim third = x.size(dim);
  third.size /= 3;
  return split3(x, dim, {third, third, third});
}

std::array<Tensor, 3> split3(const Tensor& x, int dim, const std::array<Dim, 3>& widths) {
  std::array<Tensor, 3> parts;
  split(x, dim, widths, parts);
  return parts;
}

std::vector<Tensor> chunk(const Tensor& x, std::int64_t count) {
  if (!x) return {};
  const std::int64_t rows = x.size(0).size;
  const std::int64_t length = (rows + count - 1) / count;
  std::vector<Dim> lengths;
  for (std::int64_t begin = 0; begin < rows; begin += length) lengths.push_back(Dim{std::min(length, rows - begin)});
  std::vector<Tensor> parts(lengths.size());
  split(x, 0, lengths, parts);
  return parts;
}

}  // namespace whatfits::torch
