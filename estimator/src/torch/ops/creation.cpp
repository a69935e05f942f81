// Tensors out of nothing.
#include "torch/ops.h"

namespace whatfits::torch {

Tensor randint(Torch& torch, const Shape& shape) {
  Tensor out = torch.empty(OpKind::randint, shape, DType::int64);
  torch.recorder.op({.kind = OpKind::randint}, {}, {out.id()});
  return out;
}

Tensor arange(Torch& torch, Dim n) {
  if (torch.stopped) return {};
  Tensor out = torch.empty(OpKind::arange, {n}, DType::int64);
  torch.recorder.op({.kind = OpKind::arange}, {}, {out.id()});
  return out;
}

Tensor full(Torch& torch, const Shape& shape, DType dtype, double value) {
  if (torch.stopped) return {};
  Tensor out = torch.empty(OpKind::fill, shape, dtype);
  torch.recorder.op({.kind = OpKind::fill, .scalar = value}, {}, {out.id()});
  return out;
}

namespace {
Tensor filled_like(const Tensor& x, double value) {
  Torch& torch = x.torch();
  Tensor out = torch.empty_strided(OpKind::fill, x.shape(), like_strides(x.shape(), x.strides()), x.dtype());
  torch.recorder.op({.kind = OpKind::fill, .scalar = value}, {}, {out.id()});
  return out;
}
}  // namespace

Tensor ones_like(const Tensor& x) { return filled_like(x, 1); }
Tensor zeros_like(const Tensor& x) { return filled_like(x, 0); }

}  // namespace whatfits::torch
