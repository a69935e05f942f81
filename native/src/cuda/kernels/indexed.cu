// Tables looked up by tokens, and the tokens themselves.
#include "cuda/kernels/device.h"

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

namespace {

/// The token of a pair (see KernelSet).
__device__ inline std::int64_t token(const std::int64_t* ids, std::int64_t i) { return ids[i] & 0xFFFFFFFF; }

__global__ void arange_kernel(std::int64_t* out, std::int64_t n) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) out[i] = i;
}

__global__ void embedding_kernel(Operand table, const std::int64_t* ids, Operand out, std::int64_t n, std::int64_t cols) {
  for (std::int64_t i = blockIdx.x; i < n; i += gridDim.x) {
    const std::int64_t from = token(ids, i) * cols;
    for (std::int64_t c = threadIdx.x; c < cols; c += kBlock)
      store(out.data, out.dtype, i * cols + c, load(table.data, table.dtype, from + c));
  }
}

/// Adds each token's gradient to its row of the table, tokens in order. The block of a token's first place does all of them, the others
/// find that they are not the first: no atomics, and the same sums every time.
__global__ void embedding_backward_kernel(Operand grad, const std::int64_t* ids, Operand out, std::int64_t n, std::int64_t cols) {
  __shared__ bool same[kBlock];
  __shared__ float shared[kWarps];
  for (std::int64_t place = blockIdx.x; place < n; place += gridDim.x) {
    const std::int64_t row = token(ids, place);
    float before = 0;
    for (std::int64_t j = threadIdx.x; j < place; j += kBlock) before += token(ids, j) == row ? 1.0F : 0.0F;
    if (block_sum(before, shared) != 0) continue;
    for (std::int64_t begin = place; begin < n; begin += kBlock) {
      __syncthreads();
      const std::int64_t mine = begin + threadIdx.x;
      same[threadIdx.x] = mine < n && token(ids, mine) == row;
      __syncthreads();
      for (std::int64_t c = threadIdx.x; c < cols; c += kBlock) {
        float sum = load(out.data, out.dtype, row * cols + c);
        for (unsigned k = 0; k < kBlock; ++k) {
          if (same[k]) sum += load(grad.data, grad.dtype, (begin + k) * cols + c);
        }
        store(out.data, out.dtype, row * cols + c, sum);
      }
    }
  }
}

}  // namespace

bool run_indexed(const Call& call) {
  const auto& in = call.op.inputs;
  const View& out = call.op.outputs[0];
  switch (call.op.kind) {
    case OpKind::arange:
      LAUNCH(arange_kernel, blocks_for(out.elements(), kBlock), kBlock, 0, call.stream, static_cast<std::int64_t*>(out.data),
             out.elements());
      return true;
    case OpKind::embedding:
      LAUNCH(embedding_kernel, blocks_for(in[1].elements(), 1), kBlock, 0, call.stream, Operand(in[0]),
             static_cast<const std::int64_t*>(in[1].data), Operand(out), in[1].elements(), in[0].size(1));
      return true;
    case OpKind::embedding_backward:
      LAUNCH(embedding_backward_kernel, blocks_for(in[1].elements(), 1), kBlock, 0, call.stream, Operand(in[0]),
             static_cast<const std::int64_t*>(in[1].data), Operand(out), in[1].elements(), out.size(1));
      return true;
    default:
      return false;
  }
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
