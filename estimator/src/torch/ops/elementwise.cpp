// One output for each input element.
#include "torch/autograd.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

Tensor unary(OpKind kind, const Tensor& x, DType dtype, double scalar = 0) {
  Torch& torch = x.torch();
  Tensor out = torch.empty_strided(kind, x.shape(), like_strides(x.shape(), x->strides), dtype);
  torch.recorder.op({.kind = kind, .scalar = scalar}, {x.id()}, {out.id()});
  return out;
}

Tensor binary(OpKind kind, const Tensor& a, const Tensor& b) {
  Torch& torch = a.torch();
  const Tensor& larger = a.rank() >= b.rank() ? a : b;
  const Tensor& smaller = a.rank() >= b.rank() ? b : a;
  Shape shape = larger.shape();
  for (int i = 1; i <= smaller.rank(); ++i) {
    if (smaller.size(-i).size > shape[-i].size) shape[-i] = smaller.size(-i);
  }
  const DType dtype = a.dtype() == b.dtype() || b.rank() == 0 ? a.dtype() : a.rank() == 0 ? b.dtype() : DType::float32;
  const Strides strides = shape == a.shape()   ? like_strides(shape, a->strides)
                          : shape == b.shape() ? like_strides(shape, b->strides)
                                               : contiguous_strides(shape);
  Tensor out = torch.empty_strided(kind, shape, strides, dtype);
  torch.recorder.op({.kind = kind}, {a.id(), b.id()}, {out.id()});
  return out;
}

struct AddBackward final : Node {
  using Node::Node;
  void apply(Torch&, Grads& grads, Grads& out) override {
    out.resize(2);  // the gradient of a sum is everybody's: no memory
    if (wants(1)) out[1] = grads[0];
    if (wants(0)) out[0] = grads[0];
  }
};

struct ScaleBackward final : Node {
  using Node::Node;
  OpKind kind = OpKind::none;
  double scalar = 0;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(unary(kind, grads[0], grads[0].dtype(), scalar)); }
};

struct MulByTensorBackward final : Node {
  using Node::Node;
  Saved other;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor scale = other.unpack();
    out.push_back(binary(OpKind::mul, grads[0], scale));
  }
  void release() override { other.reset(); }
};

struct MaskedFillBackward final : Node {
  using Node::Node;
  Saved mask;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor where = mask.unpack();
    Tensor dx = torch.empty_strided(OpKind::masked_fill_backward, grads[0].shape(), like_strides(grads[0].shape(), grads[0]->strides),
                                    grads[0].dtype());
    torch.recorder.op({.kind = OpKind::masked_fill_backward}, {grads[0].id(), where.id()}, {dx.id()});
    out.push_back(std::move(dx));
  }
  void release() override { mask.reset(); }
};

struct GeluBackward final : Node {
  using Node::Node;
  Saved self;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor x = self.unpack();
    Tensor dx = torch.empty_strided(OpKind::gelu_backward, x.shape(), like_strides(x.shape(), x->strides), x.dtype());
    torch.recorder.op({.kind = OpKind::gelu_backward}, {grads[0].id(), x.id()}, {dx.id()});
    out.push_back(std::move(dx));
  }
  void release() override { self.reset(); }
};

struct ToCopyBackward final : Node {
  using Node::Node;
  DType dtype = DType::float32;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(to(grads[0], dtype)); }
};

Tensor scaled(OpKind kind, const Tensor& x, double scalar) {
  if (!x) return {};
  const auto node = make_node<ScaleBackward>(x.torch(), {&x});
  if (node) {
    node->kind = kind;
    node->scalar = scalar;
  }
  return attach(unary(kind, x, x.dtype(), scalar), node);
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  if (!a || !b) return {};
  const auto node = make_node<AddBackward>(a.torch(), {&a, &b});
  return attach(binary(OpKind::add, a, b), node);
}

void add_(const Tensor& a, const Tensor& b) { a.torch().recorder.op({.kind = OpKind::add_}, {a.id(), b.id()}, {a.id()}); }

Tensor div(const Tensor& x, double divisor) { return scaled(OpKind::div_scalar, x, divisor); }
Tensor mul(const Tensor& x, double factor) { return scaled(OpKind::mul_scalar, x, factor); }

Tensor mul(const Tensor& x, const Tensor& scale) {
  if (!x || !scale) return {};
  const auto node = make_node<MulByTensorBackward>(x.torch(), {&x});
  if (node) node->other.save(scale);
  return attach(binary(OpKind::mul, x, scale), node);
}

Tensor eq(const Tensor& x, double value) { return x ? unary(OpKind::eq_scalar, x, DType::boolean, value) : Tensor(); }

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  if (!x || !mask) return {};
  const auto node = make_node<MaskedFillBackward>(x.torch(), {&x});
  if (node) node->mask.save(mask);
  Torch& torch = x.torch();
  if (torch.stopped) return {};
  Tensor out = torch.empty_strided(OpKind::masked_fill, x.shape(), like_strides(x.shape(), x->strides), x.dtype());
  torch.recorder.op({.kind = OpKind::masked_fill, .scalar = value}, {x.id(), mask.id()}, {out.id()});
  return attach(std::move(out), node);
}

Tensor gelu(const Tensor& x) {
  if (!x) return {};
  const auto node = make_node<GeluBackward>(x.torch(), {&x});
  if (node) node->self.save(x);
  if (x.torch().stopped) return {};
  return attach(unary(OpKind::gelu, x, x.dtype()), node);
}

Tensor to(const Tensor& x, DType dtype) {
  if (!x || x.dtype() == dtype) return x;
  const auto node = make_node<ToCopyBackward>(x.torch(), {&x});
  if (node) node->dtype = x.dtype();
  return attach(unary(OpKind::copy, x, dtype), node);
}

}  // namespace whatfits::torch
