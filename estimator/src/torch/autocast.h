// torch.autocast: casts at the door of operators, and the casts of weights kept until the context exits.
//
// Source: aten/src/ATen/autocast_mode.cpp and the lists in autocast_mode.h of PyTorch 2.6.
#pragma once

#include "torch/tensor.h"
#include "torch/torch.h"

namespace whatfits::torch {

/// `with torch.autocast("cuda", dtype=...)`; entering with `enabled` false is a context that casts nothing.
class AutocastScope {
 public:
  AutocastScope(Torch& torch, bool enabled, DType dtype);
  ~AutocastScope();
  AutocastScope(const AutocastScope&) = delete;
  AutocastScope& operator=(const AutocastScope&) = delete;

 private:
  Torch& torch_;
  bool enabled_before_;
  DType dtype_before_;
};

/// For operators of the lower-precision list (products, attention): the operand in autocast's type, a weight's cast from the cache.
Tensor autocast_to_lower(const Tensor& x);
/// For operators of the float32 list (norms, losses).
Tensor autocast_to_float32(const Tensor& x);

}  // namespace whatfits::torch
