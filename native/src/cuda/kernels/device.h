// What every kernel uses: operands as a kernel sees them, elements in and out of float, sums over a block.
//
// These files have two compilers: nvcc for a card, and the host's with tests/native/cusim.h, which runs the same bodies on the CPU.
// So keep to what both know: launches by LAUNCH, dynamic shared memory by DYN_SHARED, no lambdas as arguments of kernels, no intrinsics
// beyond __shfl_xor_sync, __syncthreads and those below.
#pragma once

#include <cmath>
#include <cstdint>

#include "measure/kernels.h"

#if defined(WHATFITS_CUSIM)
#define WHATFITS_CUDA_NAMESPACE host_run
#else
#include <cuda_fp16.h>
#include <cuda_runtime.h>
#define WHATFITS_CUDA_NAMESPACE device
#define DYN_SHARED(T, name) extern __shared__ T name[]
#define LAUNCH(kernel, grid, block, shared, stream, ...) kernel<<<grid, block, shared, stream>>>(__VA_ARGS__)
#endif

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

using Stream = cudaStream_t;

/// Where kernels may keep partial results: the only device memory that is not the allocator's.
struct Scratch {
  float* data = nullptr;
  std::int64_t floats = 0;
};

struct Call {
  const OpCall& op;
  Stream stream;
  Scratch scratch;
};

// One function for each family; true if it knows the operator. cuda_kernels.cpp asks them in turn.
bool run_elementwise(const Call& call);
bool run_rows(const Call& call);
bool run_reductions(const Call& call);
bool run_indexed(const Call& call);
bool run_attention(const Call& call);
bool run_optimizer(const Call& call);

/// An operand by value.
struct Operand {
  void* data = nullptr;
  DType dtype = DType::float32;
  int rank = 0;
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[kMaxRank] = {};

  Operand() = default;
  explicit Operand(const View& v) : data(v.data), dtype(v.dtype), rank(v.rank) {
    for (int i = 0; i < rank; ++i) {
      sizes[i] = v.size(i);
      strides[i] = v.stride(i);
    }
  }
};

inline std::int64_t divide_up(std::int64_t n, std::int64_t by) { return (n + by - 1) / by; }
/// Blocks for `n` items of `by` each, no more than keep a card busy.
inline unsigned blocks_for(std::int64_t n, std::int64_t by) {
  const std::int64_t blocks = divide_up(n, by);
  return static_cast<unsigned>(blocks < 1 ? 1 : blocks > 65536 ? 65536 : blocks);
}

__device__ inline float from_bfloat16(std::uint16_t bits) {
  const std::uint32_t wide = static_cast<std::uint32_t>(bits) << 16;
  float x;
  memcpy(&x, &wide, sizeof x);
  return x;
}
__device__ inline std::uint16_t to_bfloat16(float x) {  // to nearest even; a NaN stays one
  std::uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  return static_cast<std::uint16_t>(x != x ? 0x7FC0 : rounded);
}
#if defined(WHATFITS_CUSIM)
__extension__ typedef _Float16 float16;
inline float from_float16(float16 x) { return static_cast<float>(x); }
inline float16 to_float16(float x) { return static_cast<float16>(x); }
#else
using float16 = __half;
__device__ inline float from_float16(float16 x) { return __half2float(x); }
__device__ inline float16 to_float16(float x) { return __float2half_rn(x); }
#endif

__device__ inline float load(const void* data, DType dtype, std::int64_t i) {
  switch (dtype) {
    case DType::float32:
      return static_cast<const float*>(data)[i];
    case DType::bfloat16:
      return from_bfloat16(static_cast<const std::uint16_t*>(data)[i]);
    case DType::float16:
      return from_float16(static_cast<const float16*>(data)[i]);
    case DType::float64:  // the inverse of a loss scale, a power of two
      return static_cast<float>(static_cast<const double*>(data)[i]);
    case DType::boolean:
      return static_cast<const bool*>(data)[i] ? 1.0F : 0.0F;
    default:
      return 0;
  }
}
__device__ inline void store(void* data, DType dtype, std::int64_t i, float x) {
  switch (dtype) {
    case DType::float32:
      static_cast<float*>(data)[i] = x;
      break;
    case DType::bfloat16:
      static_cast<std::uint16_t*>(data)[i] = to_bfloat16(x);
      break;
    case DType::float16:
      static_cast<float16*>(data)[i] = to_float16(x);
      break;
    case DType::float64:
      static_cast<double*>(data)[i] = static_cast<double>(x);
      break;
    case DType::boolean:
      static_cast<bool*>(data)[i] = x != 0;
      break;
    default:
      break;
  }
}

/// Offset of row `r`, rows being everything but the last dimension.
__device__ inline std::int64_t row_offset(const Operand& v, std::int64_t r) {
  std::int64_t offset = 0;
  for (int i = v.rank - 2; i >= 0; --i) {
    offset += r % v.sizes[i] * v.strides[i];
    r /= v.sizes[i];
  }
  return offset;
}
/// Element `col` of the row at `offset`.
__device__ inline float load_in(const Operand& v, std::int64_t offset, std::int64_t col) {
  return load(v.data, v.dtype, offset + col * v.strides[v.rank - 1]);
}
__device__ inline void store_in(const Operand& v, std::int64_t offset, std::int64_t col, float x) {
  store(v.data, v.dtype, offset + col * v.strides[v.rank - 1], x);
}

inline constexpr unsigned kBlock = 256;
inline constexpr unsigned kWarps = kBlock / 32;

/// The sum over a block of kBlock threads, in an order that does not change; every thread gets it. `shared` has kWarps floats.
__device__ inline float block_sum(float x, float* shared) {
  for (int step = 16; step > 0; step /= 2) x += __shfl_xor_sync(~0U, x, step);
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float total = 0;
  for (unsigned i = 0; i < kWarps; ++i) total += shared[i];
  return total;
}
__device__ inline float block_max(float x, float* shared) {
  for (int step = 16; step > 0; step /= 2) {
    const float other = __shfl_xor_sync(~0U, x, step);
    x = other > x ? other : x;
  }
  __syncthreads();
  if (threadIdx.x % 32 == 0) shared[threadIdx.x / 32] = x;
  __syncthreads();
  float most = shared[0];
  for (unsigned i = 1; i < kWarps; ++i) most = shared[i] > most ? shared[i] : most;
  return most;
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
