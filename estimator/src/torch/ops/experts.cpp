#include "torch/ops/experts.h"

#include "torch/autograd.h"
#include "torch/kernel_sizes.h"
#include "torch/reduce.h"

namespace whatfits::torch {

namespace {

Tensor plain(const Tensor& like, OpKind op, const Shape& shape, DType dtype) {
  Torch& torch = like.torch();
  Tensor out = torch.empty(op, shape, dtype);
  torch.recorder.op({.kind = op}, {like.id()}, {out.id()});
  return out;
}

struct TopKBackward final : Node {
  using Node::Node;
  Saved indices;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor kept = indices.unpack();
    out.push_back(plain(grads[0], OpKind::fill, *shape, grads[0].dtype()));
  }
  void release() override { indices.reset(); }
};

/// The gradient expanded, without memory.
struct SumBackward final : Node {
  using Node::Node;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch&, Grads& grads, Grads& out) override {
    Tensor g = grads[0].rank() == shape->rank ? grads[0] : unsqueeze(grads[0], 1);
    out.push_back(expand(g, *shape));
  }
};

/// grad / other, and -grad * ((self / other) / other) for the divisor.
struct DivBackward final : Node {
  using Node::Node;
  Saved other;
  Saved self;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor divisor = other.unpack();
    const Tensor x = self.unpack();
    const Tensor& g = grads[0];
    out.resize(2);
    {
      const Tensor once = plain(x, OpKind::div, x.shape(), x.dtype());
      const Tensor twice = plain(once, OpKind::div, x.shape(), x.dtype());
      const Tensor negated = plain(g, OpKind::neg, x.shape(), x.dtype());
      out[1] = plain(negated, OpKind::mul, x.shape(), x.dtype());
    }
    out[0] = plain(g, OpKind::div, g.shape(), g.dtype());
  }
  void release() override {
    other.reset();
    self.reset();
  }
};

struct MaskedFillInPlaceBackward final : Node {
  using Node::Node;
  Saved mask;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor where = mask.unpack();
    out.push_back(plain(grads[0], OpKind::masked_fill_backward, grads[0].shape(), grads[0].dtype()));
  }
  void release() override { mask.reset(); }
};

struct ChunkBackward final : Node {
  using Node::Node;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    Tensor whole = torch.empty(OpKind::cat, *shape, grads[0].dtype());
    torch.recorder.op({.kind = OpKind::cat, .scalar = static_cast<double>(shape->rank - 1)}, {grads[0].id(), grads[1].id()}, {whole.id()});
    out.push_back(std::move(whole));
  }
};

struct GroupedMmBackward final : Node {
  using Node::Node;
  Saved input;
  Saved weight;
  Tensor offsets;  ///< an attribute of the Python context: it stays as long as the graph does
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor x = input.unpack();
    const Tensor w = weight.unpack();
    out.resize(2);
    out[0] = plain(grads[0], OpKind::mm, x.shape(), x.dtype());
    out[1] = torch.empty_strided(OpKind::mm, w.shape(), w.strides(), w.dtype());
    torch.need_blas_workspace();
    torch.recorder.op({.kind = OpKind::mm}, {x.id(), grads[0].id()}, {out[1].id()});
  }
  void release() override {
    input.reset();
    weight.reset();
  }
};

}  // namespace

TopK topk(const Tensor& x, Dim k) {
  if (!x) return {};
  const auto node = make_node<TopKBackward>(x.torch(), {&x});
  Shape shape = x.shape();
  shape[-1] = k;
  TopK out;
  out.values = plain(x, OpKind::index, shape, x.dtype());
  out.indices = plain(x, OpKind::index, shape, DType::int64);
  out.values.named("router weights");
  out.indices.named("chosen experts");
  if (node) {
    node->shape = &x.shape();
    node->indices.save(out.indices);
  }
  if (x.torch().stopped) return {};
  out.values = attach(std::move(out.values), node);
  return out;
}

void divide_by_sum_(Tensor& x) {
  if (!x) return;
  Torch& torch = x.torch();
  Shape rows = x.shape();
  rows[-1] = Dim{};
  const auto sum_node = make_node<SumBackward>(torch, {&x});
  if (sum_node) sum_node->shape = &x.shape();
  Tensor sum = torch.empty(OpKind::sum, rows, x.dtype());
  run_sum(x, sum, row_sum(rows.elements(), x.size(-1).size, size_of(x.dtype()), {torch.device.sm_count, torch.device.compute_capability}));
  sum = attach(std::move(sum), sum_node);
  const auto node = make_node<DivBackward>(torch, {&x, &sum});
  if (node) {
    node->other.save(sum);
    const Tensor original = plain(x, OpKind::copy, x.shape(), x.dtype());
    node->self.save(original);
  }
  if (torch.stopped) {
    x.reset();
    return;
  }
  x = attach(detach(x), node);
}

void masked_fill_(Tensor& x, const Tensor& mask) {
  if (!x || !mask) {
    x.reset();
    return;
  }
  const auto node = make_node<MaskedFillInPlaceBackward>(x.torch(), {&x});
  if (node) node->mask.save(mask);
  if (x.torch().stopped) {
    x.reset();
    return;
  }
  x = attach(detach(x), node);
}

std::array<Tensor, 2> chunk2(const Tensor& x) {
  if (!x) return {};
  const auto node = make_node<ChunkBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  Shape half = x.shape();
  half[-1].size /= 2;
  std::array<Tensor, 2> parts;
  parts[0] = attach(alias(x, half, x.strides(), x.offset()), node);
  parts[1] = attach(alias(x, half, x.strides(), x.offset() + half[-1].size * x.stride(-1)), node);
  return parts;
}

Tensor grouped_mm(const Tensor& x, const Tensor& weight, const Tensor& offsets) {
  if (!x || !weight) return {};
  const Tensor turned = transpose(weight, 1, 2);
  Torch& torch = x.torch();
  const auto node = make_node<GroupedMmBackward>(torch, {&x, &turned});
  Tensor out = plain(x, OpKind::mm, {x.size(0), turned.size(2)}, x.dtype());
  torch.need_blas_workspace();
  if (node) {
    node->offsets = offsets;
    node->input.save(x);
    node->weight.save(turned);
  }
  if (torch.stopped) return {};
  return attach(std::move(out), node);
}

Tensor sum_groups(const Tensor& x, Dim tokens, Dim k) {
  if (!x) return {};
  const Tensor grouped = view(x, {tokens, k, x.size(1)});
  const auto node = make_node<SumBackward>(x.torch(), {&grouped});
  if (node) node->shape = &grouped.shape();
  return attach(plain(grouped, OpKind::sum, {tokens, x.size(1)}, x.dtype()), node);
}

}  // namespace whatfits::torch
