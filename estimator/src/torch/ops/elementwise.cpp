// One output for each input element.
#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/iterator.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

Tensor unary(OpKind kind, const Tensor& x, DType dtype, double scalar = 0) {
  Torch& torch = x.torch();
  Tensor out = torch.empty_strided(kind, x.shape(), elementwise_strides(x.shape(), {&x}), dtype);
  torch.recorder.op({.kind = kind, .scalar = scalar}, {x.id()}, {out.id()});
  return out;
}

Tensor binary(OpKind kind, const Tensor& a, const Tensor& b, DType dtype) {
  Torch& torch = a.torch();
  const Shape shape = broadcast_shape(a.shape(), b.shape());
  Tensor out = torch.empty_strided(kind, shape, elementwise_strides(shape, {&a, &b}), dtype);
  torch.recorder.op({.kind = kind}, {a.id(), b.id()}, {out.id()});
  return out;
}

Tensor binary(OpKind kind, const Tensor& a, const Tensor& b) { return binary(kind, a, b, promoted(a, b)); }

struct AddBackward final : Node {
  using Node::Node;
  void apply(Torch&, Grads& grads, Grads& out) override {
    out.resize(2);  // the gradient of a sum is everybody's: no memory
    if (wants(1)) out[1] = grads[0];
    if (wants(0)) out[0] = grads[0];
  }
};

/// The gradient as it is.
struct PassBackward final : Node {
  using Node::Node;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(grads[0]); }
};

struct ScaleBackward final : Node {
  using Node::Node;
  OpKind kind = OpKind::none;
  double scalar = 0;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(unary(kind, grads[0], grads[0].dtype(), scalar)); }
};

struct MulBackward final : Node {
  using Node::Node;
  Saved self;
  Saved other;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor b = other.unpack();
    const Tensor a = self.unpack();
    out.resize(2);
    if (wants(1)) out[1] = binary(OpKind::mul, grads[0], a);
    if (wants(0)) out[0] = binary(OpKind::mul, grads[0], b);
  }
  void release() override {
    other.reset();
    self.reset();
  }
};

struct NegBackward final : Node {
  using Node::Node;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(unary(OpKind::neg, grads[0], grads[0].dtype())); }
};

struct PowBackward final : Node {
  using Node::Node;
  Saved self;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor x = self.unpack();
    const Tensor power = unary(OpKind::pow, x, x.dtype());
    const Tensor factor = unary(OpKind::mul_scalar, power, power.dtype());
    out.push_back(binary(OpKind::mul, grads[0], factor));
  }
  void release() override { self.reset(); }
};

/// -0.5 * grad * result.pow(3): the power is made first.
struct RsqrtBackward final : Node {
  using Node::Node;
  Saved result;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor y = result.unpack();
    const Tensor power = unary(OpKind::pow, y, y.dtype());
    const Tensor half = unary(OpKind::mul_scalar, grads[0], grads[0].dtype());
    out.push_back(binary(OpKind::mul, half, power));
  }
  void release() override { result.reset(); }
};

/// A gradient from the incoming one and one saved tensor, by one kernel without temporaries.
struct PointwiseBackward final : Node {
  using Node::Node;
  OpKind kind = OpKind::none;
  Saved saved;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor x = saved.unpack();
    out.push_back(binary(kind, grads[0], x));
  }
  void release() override { saved.reset(); }
};

struct MaskedFillBackward final : Node {
  using Node::Node;
  Saved mask;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor where = mask.unpack();
    Tensor dx = torch.empty_strided(OpKind::masked_fill_backward, grads[0].shape(), like_strides(grads[0].shape(), grads[0].strides()),
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
    Tensor dx = torch.empty_strided(OpKind::gelu_backward, x.shape(), like_strides(x.shape(), x.strides()), x.dtype());
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

/// The same storage, made anew by an operator that writes into it.
void scale_in_place(OpKind kind, Tensor& x, double scalar) {
  if (!x) return;
  const auto node = make_node<ScaleBackward>(x.torch(), {&x});
  if (node) {
    node->kind = kind;
    node->scalar = scalar;
  }
  x.torch().recorder.op({.kind = kind, .scalar = scalar}, {x.id()}, {x.id()});
  x = attach(detach(x), node);
}

}  // namespace

Tensor add(const Tensor& a, const Tensor& b) {
  if (!a || !b) return {};
  const auto node = make_node<AddBackward>(a.torch(), {&a, &b});
  return attach(binary(OpKind::add, a, b), node);
}

void add_(const Tensor& a, const Tensor& b) { a.torch().recorder.op({.kind = OpKind::add_}, {a.id(), b.id()}, {a.id()}); }

void add_to(Tensor& x, const Tensor& other) {
  if (!x || !other) {
    x.reset();
    return;
  }
  const auto node = make_node<AddBackward>(x.torch(), {&x, &other});
  add_(x, other);
  x = attach(detach(x), node);
}

void mul_(Tensor& x, double factor) { scale_in_place(OpKind::mul_scalar, x, factor); }
void div_(Tensor& x, double divisor) { scale_in_place(OpKind::div_scalar, x, divisor); }

Tensor div(const Tensor& x, double divisor) { return scaled(OpKind::div_scalar, x, divisor); }
Tensor mul(const Tensor& x, double factor) { return scaled(OpKind::mul_scalar, x, factor); }

Tensor mul(const Tensor& a, const Tensor& b) {
  if (!a || !b) return {};
  const auto node = make_node<MulBackward>(a.torch(), {&a, &b});
  if (node && node->wants(1)) node->self.save(a);
  if (node && node->wants(0)) node->other.save(b);
  if (a.torch().stopped) return {};
  return attach(binary(OpKind::mul, a, b), node);
}

Tensor add(const Tensor& x, double number) {
  if (!x) return {};
  const auto node = make_node<PassBackward>(x.torch(), {&x});
  return attach(unary(OpKind::add_scalar, x, x.dtype(), number), node);
}

Tensor neg(const Tensor& x) {
  if (!x) return {};
  const auto node = make_node<NegBackward>(x.torch(), {&x});
  return attach(unary(OpKind::neg, x, x.dtype()), node);
}

Tensor cos(const Tensor& x) { return x ? unary(OpKind::cos, x, x.dtype()) : Tensor(); }
Tensor sin(const Tensor& x) { return x ? unary(OpKind::sin, x, x.dtype()) : Tensor(); }

Tensor pow(const Tensor& input, double exponent) {
  const Tensor x = autocast_to_float32(input);
  if (!x) return {};
  const auto node = make_node<PowBackward>(x.torch(), {&x});
  if (node) node->self.save(x);
  if (x.torch().stopped) return {};
  return attach(unary(OpKind::pow, x, x.dtype(), exponent), node);
}

Tensor rsqrt(const Tensor& input) {
  const Tensor x = autocast_to_float32(input);
  if (!x) return {};
  const auto node = make_node<RsqrtBackward>(x.torch(), {&x});
  Tensor out = unary(OpKind::rsqrt, x, x.dtype());
  if (node) node->result.save_output(out);
  if (x.torch().stopped) return {};
  return attach(std::move(out), node);
}

namespace {

Tensor keeps_input(OpKind kind, OpKind backward, const Tensor& x) {
  if (!x) return {};
  const auto node = make_node<PointwiseBackward>(x.torch(), {&x});
  if (node) {
    node->kind = backward;
    node->saved.save(x);
  }
  if (x.torch().stopped) return {};
  return attach(unary(kind, x, x.dtype()), node);
}

Tensor keeps_output(OpKind kind, OpKind backward, const Tensor& x) {
  if (!x) return {};
  const auto node = make_node<PointwiseBackward>(x.torch(), {&x});
  Tensor out = unary(kind, x, x.dtype());
  if (node) {
    node->kind = backward;
    node->saved.save_output(out);
  }
  if (x.torch().stopped) return {};
  return attach(std::move(out), node);
}

}  // namespace

Tensor silu(const Tensor& x) { return keeps_input(OpKind::silu, OpKind::silu_backward, x); }
Tensor tanh(const Tensor& x) { return keeps_output(OpKind::tanh, OpKind::tanh_backward, x); }
Tensor relu(const Tensor& x) { return keeps_output(OpKind::relu, OpKind::relu_backward, x); }

Tensor dropout(const Tensor& x, double probability) {
  if (!x || probability <= 0) return x;
  Torch& torch = x.torch();
  const auto node = make_node<PointwiseBackward>(torch, {&x});
  const Tensor mask = unary(OpKind::dropout, x, DType::boolean);
  mask.named("dropout mask");
  Tensor out = unary(OpKind::dropout, x, x.dtype(), probability);
  if (node) {
    node->kind = OpKind::dropout_backward;
    node->saved.save_output(mask);
  }
  if (torch.stopped) return {};
  return attach(std::move(out), node);
}

Tensor compare(const Tensor& a, const Tensor& b) { return a && b ? binary(OpKind::compare, a, b, DType::boolean) : Tensor(); }

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  if (!condition || !a || !b) return {};
  Torch& torch = a.torch();
  const Shape shape = broadcast_shape(condition.shape(), broadcast_shape(a.shape(), b.shape()));
  Tensor out = torch.empty_strided(OpKind::where, shape, elementwise_strides(shape, {&condition, &a, &b}), promoted(a, b));
  torch.recorder.op({.kind = OpKind::where}, {condition.id(), a.id(), b.id()}, {out.id()});
  return out;
}

Tensor eq(const Tensor& x, double value) { return x ? unary(OpKind::eq_scalar, x, DType::boolean, value) : Tensor(); }

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  if (!x || !mask) return {};
  const auto node = make_node<MaskedFillBackward>(x.torch(), {&x});
  if (node) node->mask.save(mask);
  Torch& torch = x.torch();
  if (torch.stopped) return {};
  Tensor out = torch.empty_strided(OpKind::masked_fill, x.shape(), like_strides(x.shape(), x.strides()), x.dtype());
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
