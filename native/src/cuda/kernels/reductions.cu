// Sums, norms and other results smaller than what they are made of. All add in an order that does not depend on what runs when.
#include "cuda/kernels/device.h"

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

namespace {

constexpr unsigned kColumns = 32;

/// Offset of element `i` of a tensor, counted in row-major order.
__device__ inline std::int64_t offset_of(const Operand& v, std::int64_t i) {
  std::int64_t offset = 0;
  for (int d = v.rank - 1; d >= 0; --d) {
    offset += i % v.sizes[d] * v.strides[d];
    i /= v.sizes[d];
  }
  return offset;
}

/// partial[blockIdx.y][col] = the sum over every gridDim.y-th row, for 32 columns a block. Eight lines of threads share the rows.
__global__ void sum_rows_kernel(Operand x, float* partial, std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kBlock];
  const unsigned line = threadIdx.x / kColumns;
  const std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * kColumns + threadIdx.x % kColumns;
  float sum = 0;
  if (col < cols) {
    for (std::int64_t row = blockIdx.y + static_cast<std::int64_t>(gridDim.y) * line; row < rows;
         row += static_cast<std::int64_t>(gridDim.y) * kWarps)
      sum += load(x.data, x.dtype, offset_of(x, row * cols + col));
  }
  shared[threadIdx.x] = sum;
  __syncthreads();
  if (line != 0 || col >= cols) return;
  for (unsigned i = 1; i < kWarps; ++i) sum += shared[i * kColumns + threadIdx.x];
  partial[blockIdx.y * cols + col] = sum;
}

__global__ void add_partial_kernel(const float* partial, std::int64_t parts, Operand out, std::int64_t cols) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; col < cols; col += step) {
    float sum = 0;
    for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * cols + col];
    store(out.data, out.dtype, offset_of(out, col), sum);
  }
}

/// As sum_rows_kernel with one part, for outputs too wide for the scratch.
__global__ void sum_rows_whole_kernel(Operand x, Operand out, std::int64_t rows, std::int64_t cols) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t col = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; col < cols; col += step) {
    float sum = 0;
    for (std::int64_t row = 0; row < rows; ++row) sum += load(x.data, x.dtype, offset_of(x, row * cols + col));
    store(out.data, out.dtype, offset_of(out, col), sum);
  }
}

void sum_rows(const Call& call) {
  const View& x = call.op.inputs[0];
  const View& out = call.op.outputs[0];
  const std::int64_t cols = out.elements();
  const std::int64_t rows = x.elements() / cols;
  const std::int64_t most = call.scratch.floats / cols;
  if (most == 0) {
    LAUNCH(sum_rows_whole_kernel, blocks_for(cols, kBlock), kBlock, 0, call.stream, Operand(x), Operand(out), rows, cols);
    return;
  }
  std::int64_t parts = divide_up(rows, 64);
  if (parts > 64) parts = 64;
  if (parts > most) parts = most;
  const dim3 grid(static_cast<unsigned>(divide_up(cols, kColumns)), static_cast<unsigned>(parts));
  LAUNCH(sum_rows_kernel, grid, kBlock, 0, call.stream, Operand(x), call.scratch.data, rows, cols);
  LAUNCH(add_partial_kernel, blocks_for(cols, kBlock), kBlock, 0, call.stream, call.scratch.data, parts, Operand(out), cols);
}

__global__ void sum_last_kernel(Operand x, Operand out, std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kWarps];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t at = row_offset(x, row);
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) sum += load_in(x, at, i);
    sum = block_sum(sum, shared);
    if (threadIdx.x == 0) store(out.data, out.dtype, offset_of(out, row), sum);
  }
}

__global__ void squares_kernel(Operand x, float* partial, std::int64_t n) {
  __shared__ float shared[kWarps];
  float sum = 0;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * kBlock;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * kBlock + threadIdx.x; i < n; i += step) {
    const float v = load(x.data, x.dtype, i);  // packed in some order, and order does not matter
    sum += v * v;
  }
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = sum;
}

__global__ void root_kernel(const float* partial, std::int64_t parts, Operand out) {
  double sum = 0;
  for (std::int64_t i = 0; i < parts; ++i) sum += static_cast<double>(partial[i]);
  store(out.data, out.dtype, 0, static_cast<float>(sqrt(sum)));
}

__global__ void all_kernel(Operand x, Operand out, std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kWarps];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float missing = 0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) missing += load(x.data, x.dtype, row * cols + i) == 0 ? 1.0F : 0.0F;
    missing = block_sum(missing, shared);
    if (threadIdx.x == 0) store(out.data, out.dtype, row, missing == 0 ? 1.0F : 0.0F);
  }
}

}  // namespace

bool run_reductions(const Call& call) {
  switch (call.op.kind) {
    case OpKind::sum:
      if ((call.op.flags & op_flags::last_dimension) == 0) {
        sum_rows(call);
      } else {
        const View& x = call.op.inputs[0];
        const std::int64_t rows = x.elements() / x.size(-1);
        LAUNCH(sum_last_kernel, blocks_for(rows, 1), kBlock, 0, call.stream, Operand(x), Operand(call.op.outputs[0]), rows, x.size(-1));
      }
      return true;
    case OpKind::foreach_norm:
    case OpKind::vector_norm: {
      const View& x = call.op.inputs[0];
      std::int64_t parts = divide_up(x.elements(), 16 * kBlock);
      if (parts > 1024) parts = 1024;
      LAUNCH(squares_kernel, static_cast<unsigned>(parts), kBlock, 0, call.stream, Operand(x), call.scratch.data, x.elements());
      LAUNCH(root_kernel, 1U, 1U, 0, call.stream, call.scratch.data, parts, Operand(call.op.outputs[0]));
      return true;
    }
    case OpKind::all: {
      const View& x = call.op.inputs[0];
      const std::int64_t rows = x.elements() / x.size(-1);
      LAUNCH(all_kernel, blocks_for(rows, 1), kBlock, 0, call.stream, Operand(x), Operand(call.op.outputs[0]), rows, x.size(-1));
      return true;
    }
    default:
      return false;
  }
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
