#include "torch/autocast.h"

#include <utility>

#include "torch/ops.h"

namespace whatfits::torch {

namespace {

/// Before 8.0 the first autocast to bfloat16 of a process makes a tensor of one, to see if the card takes it. Source:
/// torch/amp/autocast_mode.py and _check_bf16_tensor_supported (cached) of torch/cuda/__init__.py.
void check_bfloat16(Torch& torch, DType dtype) {
  if (dtype != DType::bfloat16 || torch.device.compute_capability >= 80) return;
  if (std::exchange(torch.autocast.bfloat16_checked, true)) return;
  full(torch, {Dim{}}, DType::bfloat16, 1).named("whether the card takes bfloat16");
}

}  // namespace

AutocastScope::AutocastScope(Torch& torch, bool enabled, DType dtype)
    : torch_(torch), enabled_before_(torch.autocast.enabled), dtype_before_(torch.autocast.dtype) {
  if (enabled) check_bfloat16(torch, dtype);
  torch_.autocast.enabled = enabled;
  torch_.autocast.dtype = dtype;
  ++torch_.autocast.nesting;
}

AutocastScope::~AutocastScope() {
  if (--torch_.autocast.nesting == 0) {
    // PyTorch's cache is a hash table of pointers: the order in which these go is nobody's to know. Here it is the order made.
    for (Autocast::Cast& cast : torch_.autocast.cache) cast.cast.reset();
    torch_.autocast.cache.clear();
  }
  torch_.autocast.enabled = enabled_before_;
  torch_.autocast.dtype = dtype_before_;
}

Tensor autocast_to_lower(const Tensor& x) {
  if (!x) return {};
  Autocast& autocast = x.torch().autocast;
  if (!autocast.enabled || x.dtype() == autocast.dtype || x.dtype() == DType::int64 || x.dtype() == DType::boolean) return x;
  const bool cacheable = x.dtype() == DType::float32 && x->leaf_requires_grad && !x->base;
  if (!cacheable) return to(x, autocast.dtype);
  for (const Autocast::Cast& cast : autocast.cache) {
    if (cast.weight == x.get()) return cast.cast;
  }
  Tensor cast = to(x, autocast.dtype);
  if (cast) autocast.cache.push_back({x.get(), cast});
  return cast;
}

Tensor autocast_to_float32(const Tensor& x) {
  if (!x || !x.torch().autocast.enabled || x.dtype() == DType::float32) return x;
  return to(x, DType::float32);
}

}  // namespace whatfits::torch
