// From an operator to its kernel, for both of the compilers of these files (device.h).
#pragma once

#include "cuda/kernels/device.h"

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

inline bool run(const OpCall& op, Stream stream, void* scratch, Bytes scratch_bytes) {
  const Call call{op, stream, {static_cast<float*>(scratch), static_cast<std::int64_t>(scratch_bytes / sizeof(float))}};
  return run_elementwise(call) || run_rows(call) || run_reductions(call) || run_indexed(call) || run_attention(call) || run_optimizer(call);
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
