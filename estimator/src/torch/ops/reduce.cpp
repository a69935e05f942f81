// Sums. Over rows they stage partial sums in global memory, in buffers whose size depends on the card.
#include "torch/reduce.h"
#include "torch/autograd.h"
#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::torch {

void run_sum(const Tensor& x, const Tensor& out, const Reduction& reduction) {
  Torch& torch = out.torch();
  Tensor carry;
  if (reduction.carry != 0) carry = torch.scratch(OpKind::sum, reduction.carry).named("partial results of a sum");
  for (int i = 0; i < reduction.launches; ++i) {
    const ReductionLaunch& launch = reduction.launch[i];
    if (launch.accumulator == 0) {
      torch.recorder.op({.kind = OpKind::sum}, {x.id()}, {out.id()});
      continue;
    }
    const Tensor partial = torch.scratch(OpKind::sum, launch.accumulator).named("partial sums");
    const Tensor semaphores = torch.scratch(OpKind::sum, launch.semaphores).named("semaphores of a sum");
    torch.recorder.op({.kind = OpKind::sum}, {x.id()}, {out.id()}, {partial.id(), semaphores.id()});
  }
}

namespace {

struct MeanBackward final : Node {
  using Node::Node;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    // The gradient, expanded without memory, divided by the count.
    Tensor whole = torch.empty(OpKind::div_scalar, *shape, grads[0].dtype());
    torch.recorder.op({.kind = OpKind::div_scalar}, {grads[0].id()}, {whole.id()});
    out.push_back(std::move(whole));
  }
};

/// The staging of a sum that takes `from` to `to`, both of one rank: over the first dimensions, the last, or one in between.
Reduction staging_of(const Tensor& x, const Shape& to) {
  const Multiprocessors card{x.torch().device.sm_count, x.torch().device.compute_capability};
  const Shape& from = x.shape();
  const Bytes bytes = size_of(x.dtype());
  int first_kept = 0;
  while (first_kept < from.rank && to[first_kept].size == 1) ++first_kept;
  if (first_kept == from.rank) return full_sum(x.elements(), bytes, card);
  bool rest_kept = true;
  bool only_last = from[-1].size != 1 && to[-1].size == 1;
  for (int i = first_kept; i < from.rank; ++i) rest_kept = rest_kept && to[i].size == from[i].size;
  for (int i = 0; i + 1 < from.rank; ++i) only_last = only_last && to[i].size == from[i].size;
  const std::int64_t outputs = to.elements();
  if (rest_kept) return column_sum(x.elements() / outputs, outputs, bytes, card);
  if (only_last) return row_sum(outputs, x.elements() / outputs, bytes, card);
  // In between lie the groups of query heads that share a key head: too few to be staged.
  Reduction one;
  one.launches = 1;
  return one;
}

}  // namespace

Tensor sum_to(const Tensor& x, const Shape& shape) {
  Torch& torch = x.torch();
  Shape kept;  // `shape` in the rank of `x`: at::sum_to keeps the summed dimensions and then views them away
  kept.rank = x.rank();
  for (int i = 1; i <= kept.rank; ++i) kept[-i] = i <= shape.rank ? shape[-i] : Dim{};
  if (kept.rank == shape.rank) {
    Tensor out = torch.empty(OpKind::sum, shape, x.dtype());
    run_sum(x, out, staging_of(x, kept));
    return out;
  }
  Tensor out = torch.empty(OpKind::sum, shape, x.dtype());
  run_sum(x, out, staging_of(x, kept));
  return alias(out, shape, out.strides(), 0);
}

Tensor mean_last(const Tensor& x) {
  if (!x) return {};
  Torch& torch = x.torch();
  const auto node = make_node<MeanBackward>(torch, {&x});
  if (node) node->shape = &x.shape();
  Shape shape = x.shape();
  const std::int64_t cols = shape[-1].size;
  shape[-1] = Dim{};
  Tensor out = torch.empty(OpKind::mean, shape, x.dtype());
  run_sum(x, out, row_sum(shape.elements(), cols, size_of(x.dtype()), {torch.device.sm_count, torch.device.compute_capability}));
  return attach(std::move(out), node);
}

}  // namespace whatfits::torch
