// Parts of tensors, and tensors put together from parts.
#include "torch/autograd.h"
#include "torch/iterator.h"
#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

Tensor narrowed(const Tensor& x, int dim, std::int64_t start, Dim length) {
  Shape shape = x.shape();
  shape[dim] = length;
  return alias(x, shape, x.strides(), x.offset() + start * x.stride(dim));
}

/// slice_backward: zeros of the whole, then the gradient is copied into its place.
struct NarrowBackward final : Node {
  using Node::Node;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    Tensor whole = torch.empty(OpKind::slice_backward, *shape, grads[0].dtype());
    torch.recorder.op({.kind = OpKind::slice_backward}, {grads[0].id()}, {whole.id()});
    out.push_back(std::move(whole));
  }
};

/// Zeros of the whole, into which index_put_ adds: it sorts the indices first.
struct IndexBackward final : Node {
  using Node::Node;
  Saved indices;
  int dim = 0;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor index = indices.unpack();
    constexpr OpKind op = OpKind::index_backward;
    const auto made_from = [&](const Tensor& operand, const Shape& made, DType dtype) {
      Tensor t = torch.empty(op, made, dtype);
      torch.recorder.op({.kind = op}, {operand.id()}, {t.id()});
      return t;
    };
    Tensor whole = made_from(grads[0], *shape, grads[0].dtype());
    {
      Tensor linear = made_from(index, index.shape(), DType::int64);
      linear = made_from(index, index.shape(), DType::int64);
      const Tensor values = contiguous(grads[0]);
      const Tensor sorted = made_from(index, index.shape(), DType::int64);
      const Tensor order = made_from(index, index.shape(), DType::int64);
      const Tensor positions = made_from(index, index.shape(), DType::int64);
      torch.scratch(op, index_sort_scratch(index.elements(), (*shape)[dim].size - 1, torch.device.compute_capability))
          .named("radix sort scratch");
    }
    out.push_back(std::move(whole));
  }
  void release() override { indices.reset(); }
};

/// A part of each for itself: views.
struct StackLastBackward final : Node {
  using Node::Node;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor& grad = grads[0];
    Shape shape = grad.shape();
    --shape.rank;
    for (int i = 0; i < 2; ++i) out.push_back(alias(grad, shape, grad.strides(), grad.offset() + i * grad.stride(-1)));
  }
};

struct CatBackward final : Node {
  using Node::Node;
  int dim = 0;
  std::vector<Dim> lengths;
  void apply(Torch&, Grads& grads, Grads& out) override {
    std::int64_t start = 0;
    for (std::size_t i = 0; i < lengths.size(); ++i) {
      out.push_back(wants(i) ? narrowed(grads[0], dim, start, lengths[i]) : Tensor());
      start += lengths[i].size;
    }
  }
};

}  // namespace

Tensor narrow(const Tensor& x, int dim, std::int64_t start, Dim length) {
  if (!x) return {};
  if (dim < 0) dim += x.rank();
  const auto node = make_node<NarrowBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  return attach(narrowed(x, dim, start, length), node);
}

Tensor narrow(const Tensor& x, int dim, std::int64_t start, Dim length, std::int64_t step) {
  if (!x) return {};
  if (dim < 0) dim += x.rank();
  const auto node = make_node<NarrowBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  Shape shape = x.shape();
  shape[dim] = length;
  Strides strides = x.strides();
  strides[static_cast<std::size_t>(dim)] *= step;
  return attach(alias(x, shape, strides, x.offset() + start * x.stride(dim)), node);
}

Tensor narrow_first(const Tensor& x, int dim, Dim length) {
  if (!x || x.size(dim).size != length.size) return narrow(x, dim, 0, length);
  return expand(x, x.shape());  // at::alias: a node of its own, which hands the gradient on
}

Tensor full_slices(const Tensor& x, int count) {
  Tensor part = x;
  for (int i = 0; i < count && part; ++i) part = narrow(part, i, 0, x.size(i));
  return part;
}

Tensor stack_last(const Tensor& a, const Tensor& b) {
  if (!a || !b) return {};
  Torch& torch = a.torch();
  const auto node = make_node<StackLastBackward>(torch, {&a, &b});
  Shape shape = a.shape();
  shape[shape.rank++] = Dim{2};
  Tensor out = torch.empty(OpKind::cat, shape, a.dtype());
  torch.recorder.op({.kind = OpKind::cat, .scalar = static_cast<double>(shape.rank - 1)}, {a.id(), b.id()}, {out.id()});
  return attach(std::move(out), node);
}

Tensor select(const Tensor& x, int dim, std::int64_t index) {
  if (!x) return {};
  const auto node = make_node<NarrowBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  Shape shape = x.shape();
  Strides strides = x.strides();
  const std::int64_t offset = x.offset() + index * x.stride(dim);
  for (int i = dim; i + 1 < shape.rank; ++i) {
    shape[i] = shape[i + 1];
    strides[static_cast<std::size_t>(i)] = strides[static_cast<std::size_t>(i + 1)];
  }
  --shape.rank;
  return attach(alias(x, shape, strides, offset), node);
}

Tensor index(const Tensor& x, int dim, const Tensor& indices) {
  if (!x || !indices) return {};
  if (dim < 0) dim += x.rank();
  Torch& torch = x.torch();
  const auto node = make_node<IndexBackward>(torch, {&x});
  if (node) {
    node->dim = dim;
    node->shape = &x.shape();
    node->indices.save(indices);
  }
  if (torch.stopped) return {};
  Shape shape = x.shape();
  shape[dim] = indices.size(0);
  Tensor out = torch.empty(OpKind::index, shape, x.dtype());
  torch.recorder.op({.kind = OpKind::index, .scalar = static_cast<double>(dim)}, {x.id(), indices.id()}, {out.id()});
  return attach(std::move(out), node);
}

Tensor index(const Tensor& x, int dim) {
  if (!x) return {};
  const Tensor indices = full(x.torch(), {Dim{}}, DType::int64, 0);
  indices.named("index, a list of one");
  return index(x, dim, indices);
}

Tensor cat(std::initializer_list<const Tensor*> parts, int dim) {
  for (const Tensor* part : parts) {
    if (!*part) return {};
  }
  DType dtype = (*parts.begin())->dtype();
  for (const Tensor* part : parts) {
    if (part->dtype() != dtype) dtype = DType::float32;
  }
  return cat(parts, dim, dtype);
}

Tensor cat(std::initializer_list<const Tensor*> parts, int dim, DType dtype) {
  for (const Tensor* part : parts) {
    if (!*part) return {};
  }
  const Tensor& first = **parts.begin();
  if (dim < 0) dim += first.rank();
  Torch& torch = first.torch();
  const auto node = make_node<CatBackward>(torch, parts);
  Shape shape = first.shape();
  shape[dim] = Dim{0};
  std::vector<TensorId> operands;
  for (const Tensor* part : parts) {
    const Dim length = part->size(dim);
    shape[dim] = Dim{shape[dim].size + length.size, length.letters};
    if (node) node->lengths.push_back(length);
    operands.push_back(part->id());
  }
  if (node) node->dim = dim;
  Tensor out = torch.empty(OpKind::cat, shape, dtype);
  operands.push_back(out.id());
  torch.recorder.op(
      {.kind = OpKind::cat, .inputs = static_cast<std::uint16_t>(parts.size()), .outputs = 1, .scalar = static_cast<double>(dim)},
      operands);
  return attach(std::move(out), node);
}

Tensor pad_right(const Tensor& x, std::int64_t count) {
  if (!x) return {};
  Torch& torch = x.torch();
  Shape shape = x.shape();
  shape[-1] = Dim{shape[-1].size + count, shape[-1].letters};
  Tensor out = torch.empty(OpKind::pad, shape, x.dtype());
  torch.recorder.op({.kind = OpKind::pad}, {x.id()}, {out.id()});
  return out;
}

}  // namespace whatfits::torch
