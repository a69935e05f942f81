// Products of matrices: cuBLAS, its workspace, and the copies that make operands fit for it.
#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/checkpoint.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

/// A matrix product of the last two dimensions. The workspace is asked for after the output, if this thread has none yet.
Tensor product(OpKind kind, const Tensor& a, const Tensor& b) {
  Torch& torch = a.torch();
  Shape shape = a.shape();
  shape[-1] = b.size(-1);
  Tensor out;
  if (recall(torch, {&out})) return out;
  out = torch.empty(kind, shape, a.dtype());
  torch.need_blas_workspace();
  torch.recorder.op({.kind = kind}, {a.id(), b.id()}, {out.id()});
  keep(torch, {&out});
  return out;
}

/// bmm takes a batch of matrices as it is when one of the two strides is 1 and the other leads over a row; else it copies
/// (prepare_batch_matrix_for_cublas).
bool blas_takes(const Tensor& x) {
  const std::int64_t rows = x.stride(-2);
  const std::int64_t cols = x.stride(-1);
  const auto leads = [](std::int64_t stride, std::int64_t n) { return stride >= (n > 1 ? n : 1); };
  return (cols == 1 && leads(rows, x.size(-1).size)) || (rows == 1 && leads(cols, x.size(-2).size)) || x.is_contiguous();
}

/// mm_mat2_backward: the gradient of a [n, m] operand that lies transposed in memory is made in the operand's own layout.
Tensor mat2_backward(const Tensor& grad, const Tensor& a, bool column_major) { return column_major ? t(mm(t(grad), a)) : mm(t(a), grad); }

bool is_column_major(const Tensor& x) { return x.stride(0) == 1 && x.stride(1) == x.size(0).size; }

struct MmBackward final : Node {
  using Node::Node;
  Saved self;
  Saved mat2;
  bool column_major = true;  ///< the second operand, as a transposed weight is
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor b = mat2.unpack();
    const Tensor a = self.unpack();
    out.resize(2);
    if (wants(1)) out[1] = mat2_backward(grads[0], a, column_major);
    if (wants(0)) out[0] = mm(grads[0], t(b));
  }
  void release() override {
    mat2.reset();
    self.reset();
  }
};

struct AddmmBackward final : Node {
  using Node::Node;
  Saved mat1;
  Saved mat2;
  bool column_major = true;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor a = mat1.unpack();
    const Tensor b = mat2.unpack();
    out.resize(3);
    if (wants(1)) out[1] = mm(grads[0], t(b));
    if (wants(2)) out[2] = mat2_backward(grads[0], a, column_major);
    if (wants(0)) out[0] = grads[0];  // summed over the rows on its way to the bias
  }
  void release() override {
    mat1.reset();
    mat2.reset();
  }
};

struct BmmBackward final : Node {
  using Node::Node;
  Saved self;
  Saved mat2;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor b = mat2.unpack();
    const Tensor a = self.unpack();
    out.resize(2);
    if (wants(1)) out[1] = bmm(transpose(a, 1, 2), grads[0]);
    if (wants(0)) out[0] = bmm(grads[0], transpose(b, 1, 2));
  }
  void release() override {
    mat2.reset();
    self.reset();
  }
};

}  // namespace

Tensor addmm(const Tensor& bias_in, const Tensor& a_in, const Tensor& b_in) {
  const Tensor b = autocast_to_lower(b_in);
  const Tensor a = autocast_to_lower(a_in);
  const Tensor bias = autocast_to_lower(bias_in);
  if (!bias || !a || !b) return {};
  Torch& torch = a.torch();
  const auto node = make_node<AddmmBackward>(torch, {&bias, &a, &b});
  if (node && node->wants(2)) node->mat1.save(a);
  if (node && node->wants(1)) node->mat2.save(b);
  if (node) node->column_major = is_column_major(b);
  if (torch.stopped) return {};
  Tensor out;
  if (recall(torch, {&out})) return attach(std::move(out), node);
  out = torch.empty(OpKind::addmm, {a.size(0), b.size(1)}, a.dtype());
  // cublasLt adds the bias in its epilogue and wants scratch of its own, 1 MiB by default (CUBLASLT_WORKSPACE_SIZE); it does not
  // take matrices with a single row or column of weights.
  if (b.size(0).size > 1 && b.size(1).size > 1) {
    const Tensor scratch = torch.scratch(OpKind::addmm, MiB);
    scratch.named("cublasLt scratch");
    torch.need_blas_workspace();
    torch.recorder.op({.kind = OpKind::addmm}, {bias.id(), a.id(), b.id()}, {out.id()}, {scratch.id()});
  } else {
    torch.need_blas_workspace();
    torch.recorder.op({.kind = OpKind::addmm}, {bias.id(), a.id(), b.id()}, {out.id()});
  }
  keep(torch, {&out});
  return attach(std::move(out), node);
}

Tensor mm(const Tensor& a, const Tensor& b) {
  if (!a || !b) return {};
  Torch& torch = a.torch();
  const auto node = make_node<MmBackward>(torch, {&a, &b});
  if (node && node->wants(0)) node->mat2.save(b);
  if (node && node->wants(1)) node->self.save(a);
  if (node) node->column_major = is_column_major(b);
  if (torch.stopped) return {};
  return attach(product(OpKind::mm, a, b), node);
}

Tensor bmm(const Tensor& a, const Tensor& b) {
  if (!a || !b) return {};
  Torch& torch = a.torch();
  const auto node = make_node<BmmBackward>(torch, {&a, &b});
  if (node && node->wants(0)) node->mat2.save(b);
  if (node && node->wants(1)) node->self.save(a);
  if (torch.stopped) return {};
  Shape shape = a.shape();
  shape[-1] = b.size(-1);
  Tensor out;
  if (recall(torch, {&out})) return attach(std::move(out), node);
  out = torch.empty(OpKind::bmm, shape, a.dtype());
  const With no_grad(torch.grad_enabled, false);
  const Tensor left = blas_takes(a) ? a : contiguous(a);
  const Tensor right = blas_takes(b) ? b : contiguous(b);
  torch.need_blas_workspace();
  torch.recorder.op({.kind = OpKind::bmm}, {left.id(), right.id()}, {out.id()});
  keep(torch, {&out});
  return attach(std::move(out), node);
}

namespace {

struct BaddbmmBackward final : Node {
  using Node::Node;
  Saved batch1;
  Saved batch2;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor a = batch1.unpack();
    const Tensor b = batch2.unpack();
    out.resize(2);
    if (wants(0)) out[0] = mul(bmm(grads[0], transpose(b, 1, 2)), 1.0);
    if (wants(1)) out[1] = mul(bmm(transpose(a, 1, 2), grads[0]), 1.0);
  }
  void release() override {
    batch1.reset();
    batch2.reset();
  }
};

}  // namespace

Tensor baddbmm(const Tensor& input_in, const Tensor& a_in, const Tensor& b_in) {
  const Tensor b = autocast_to_lower(b_in);
  const Tensor a = autocast_to_lower(a_in);
  const Tensor input = autocast_to_lower(input_in);
  if (!input || !a || !b) return {};
  Torch& torch = a.torch();
  const auto node = make_node<BaddbmmBackward>(torch, {&a, &b});
  if (node && node->wants(1)) node->batch1.save(a);
  if (node && node->wants(0)) node->batch2.save(b);
  if (torch.stopped) return {};
  Shape shape = a.shape();
  shape[-1] = b.size(-1);
  Tensor out;
  if (recall(torch, {&out})) return attach(std::move(out), node);
  out = torch.empty(OpKind::baddbmm, shape, a.dtype());
  torch.need_blas_workspace();
  torch.recorder.op({.kind = OpKind::baddbmm}, {input.id(), a.id(), b.id()}, {out.id()});
  keep(torch, {&out});
  return attach(std::move(out), node);
}

Tensor linear(const Tensor& input, const Tensor& weight, const Tensor& bias) {
  if (!input) return {};
  const Tensor b = autocast_to_lower(bias);
  const Tensor w = autocast_to_lower(weight);
  const Tensor x = autocast_to_lower(input);
  if (!x || !w) return {};
  Dim rows;
  for (int i = 0; i + 1 < x.rank(); ++i) rows = rows * x.size(i);
  Shape out_shape = x.shape();
  out_shape[-1] = w.size(0);
  const Shape flat{rows, x.size(-1)};
  if (b) {
    const Tensor matrix = reshape(x, flat);
    return view(addmm(b, matrix, t(w)), out_shape);
  }
  const Tensor transposed = t(w);
  return view(mm(reshape(x, flat), transposed), out_shape);
}

Tensor matmul(const Tensor& left, const Tensor& right) {
  if (!left || !right) return {};
  const Tensor b = autocast_to_lower(right);
  const Tensor a = autocast_to_lower(left);
  if (!a || !b) return {};
  const int rank = a.rank();
  if (b.rank() == 2) {
    Dim rows;
    for (int i = 0; i + 1 < rank; ++i) rows = rows * a.size(i);
    Shape out = a.shape();
    out[-1] = b.size(1);
    return view(mm(reshape(a, {rows, a.size(-1)}), b), out);
  }
  Dim batch = a.size(0);
  if (rank == 4) batch = batch * a.size(1);
  const Tensor x = reshape(a, {batch, a.size(-2), a.size(-1)});
  if (x && !(x->storage == a->storage)) x.named("left operand, packed for the product");
  const bool one_head = rank == 4 && b.size(1).size != a.size(1).size;
  const Tensor heads = one_head ? expand(b, {b.size(0), a.size(1), b.size(2), b.size(3)}) : b;
  const Tensor y = reshape(heads, {batch, b.size(-2), b.size(-1)});
  if (y && !(y->storage == b->storage)) y.named("right operand, packed for the product");
  Shape shape = a.shape();
  shape[-1] = b.size(-1);
  return view(bmm(x, y), shape);
}

}  // namespace whatfits::torch
