// Sums. Over rows they stage partial sums in global memory, in buffers whose size depends on the card.
#include "torch/reduce.h"
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

Tensor sum_to(const Tensor& x, const Shape& shape) {
  Torch& torch = x.torch();
  // Broadcasting only ever put dimensions in front here, so what goes is rows of what stays.
  const std::int64_t cols = shape.elements();
  const std::int64_t rows = x.elements() / cols;
  Tensor out = torch.empty(OpKind::sum, shape, x.dtype());
  run_sum(x, out, column_sum(rows, cols, size_of(x.dtype()), {torch.device.sm_count, torch.device.compute_capability}));
  // at::sum_to keeps the summed dimensions and then views them away: what comes out looks into what was made.
  return alias(out, shape, out->strides, 0);
}

}  // namespace whatfits::torch
