// Sums. Over rows they stage partial sums in global memory, in buffers whose size depends on the card.
#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::torch {

Tensor sum_to(const Tensor& x, const Shape& shape) {
  Torch& torch = x.torch();
  // Broadcasting only ever put dimensions in front here, so what goes is rows of what stays.
  const std::int64_t cols = shape.elements();
  const std::int64_t rows = x.elements() / cols;
  Tensor out = torch.empty(OpKind::sum, shape, x.dtype());
  const SumStaging staging = column_sum(static_cast<std::uint64_t>(rows), static_cast<std::uint64_t>(cols), size_of(x.dtype()),
                                        torch.device.sm_count, torch.device.compute_capability);
  if (staging.accumulator != 0) {
    const Tensor partial = torch.scratch(OpKind::sum, staging.accumulator);
    partial.named("partial sums of a reduction");
    const Tensor semaphores = torch.scratch(OpKind::sum, staging.semaphores);
    semaphores.named("semaphores of a reduction");
    torch.recorder.op({.kind = OpKind::sum}, {x.id()}, {out.id()}, {partial.id(), semaphores.id()});
  } else {
    torch.recorder.op({.kind = OpKind::sum}, {x.id()}, {out.id()});
  }
  // at::sum_to keeps the summed dimensions and then views them away: what comes out looks into what was made.
  return alias(out, shape, out->strides, 0);
}

}  // namespace whatfits::torch
