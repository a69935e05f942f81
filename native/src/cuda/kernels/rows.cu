// Operators that look at a whole row of the last dimension: softmax, norms, the loss. One block a row.
#include "cuda/kernels/device.h"

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

namespace {

struct Rows {
  std::int64_t rows;
  std::int64_t cols;
  explicit Rows(const View& v) : rows(v.elements() / v.size(-1)), cols(v.size(-1)) {}
  unsigned blocks() const { return blocks_for(rows, 1); }
};

/// y = exp(x - max) / sum, or x - max - log(sum). The row is read twice and written once: out of the second-level cache the second
/// time, since a block has no other row at work.
template <bool kLog>
__global__ void softmax_kernel(Operand x, Operand y, std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kWarps];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t from = row_offset(x, row);
    const std::int64_t to = row_offset(y, row);
    // Highest and sum in one pass: the sum is rescaled when a higher one turns up.
    float most = -INFINITY;
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const float v = load_in(x, from, i);
      if (v > most) {
        sum *= expf(most - v);
        most = v;
      }
      if (v > -INFINITY) sum += expf(v - most);
    }
    const float highest = block_max(most, shared);
    const float total = block_sum(most > -INFINITY ? sum * expf(most - highest) : 0.0F, shared);
    const float scale = kLog ? highest + logf(total) : 1 / total;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const float v = load_in(x, from, i);
      store_in(y, to, i, kLog ? v - scale : expf(v - highest) * scale);
    }
  }
}

/// dx = y (grad - sum(grad y)), or grad - exp(y) sum(grad)
template <bool kLog>
__global__ void softmax_backward_kernel(Operand grad, Operand y, Operand dx, std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kWarps];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t g_at = row_offset(grad, row);
    const std::int64_t y_at = row_offset(y, row);
    const std::int64_t to = row_offset(dx, row);
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const float g = load_in(grad, g_at, i);
      sum += kLog ? g : g * load_in(y, y_at, i);
    }
    sum = block_sum(sum, shared);
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const float g = load_in(grad, g_at, i);
      const float v = load_in(y, y_at, i);
      store_in(dx, to, i, kLog ? g - expf(v) * sum : v * (g - sum));
    }
  }
}

__global__ void layer_norm_kernel(Operand x, Operand weight, Operand bias, Operand y, Operand mean, Operand rstd, float eps,
                                  std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kWarps];
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t from = row_offset(x, row);
    const std::int64_t to = row_offset(y, row);
    float sum = 0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) sum += load_in(x, from, i);
    const float m = block_sum(sum, shared) / static_cast<float>(cols);
    float squares = 0;
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const float d = load_in(x, from, i) - m;
      squares += d * d;
    }
    const float r = 1 / sqrtf(block_sum(squares, shared) / static_cast<float>(cols) + eps);
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const float normal = (load_in(x, from, i) - m) * r;
      store_in(y, to, i, normal * load(weight.data, weight.dtype, i) + load(bias.data, bias.dtype, i));
    }
    if (threadIdx.x == 0) {
      store(mean.data, mean.dtype, row, m);
      store(rstd.data, rstd.dtype, row, r);
    }
  }
}

/// Columns of a thread that fit into registers.
constexpr int kOwn = 8;

/// dx, and in each block the sums for dw and db over its rows: partial[block] holds cols of dw, then cols of db. Every thread owns its
/// columns, so the order of sums does not change. With kRegisters the sums stay in registers until the end (rows up to kOwn * kBlock
/// wide), else in `partial`.
template <bool kRegisters>
__global__ void layer_norm_backward_kernel(Operand grad, Operand x, Operand weight, Operand mean, Operand rstd, Operand dx, float* partial,
                                           std::int64_t rows, std::int64_t cols) {
  __shared__ float shared[kWarps];
  float* const dw = partial + 2 * cols * blockIdx.x;
  float* const db = dw + cols;
  float own_dw[kOwn] = {};
  float own_db[kOwn] = {};
  if (!kRegisters) {
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) dw[i] = db[i] = 0;
  }
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t g_at = row_offset(grad, row);
    const std::int64_t x_at = row_offset(x, row);
    const std::int64_t to = row_offset(dx, row);
    const float m = load(mean.data, mean.dtype, row);
    const float r = load(rstd.data, rstd.dtype, row);
    float sum = 0;
    float along = 0;
    const auto column = [&](std::int64_t i, float& sum_dw, float& sum_db) {
      const float g = load_in(grad, g_at, i);
      const float normal = (load_in(x, x_at, i) - m) * r;
      const float gw = g * load(weight.data, weight.dtype, i);
      sum += gw;
      along += gw * normal;
      sum_dw += g * normal;
      sum_db += g;
    };
    if (kRegisters) {
      for (int k = 0; k < kOwn; ++k) {  // a loop of known length, so that the arrays can be registers
        const std::int64_t i = threadIdx.x + static_cast<std::int64_t>(k) * kBlock;
        if (i < cols) column(i, own_dw[k], own_db[k]);
      }
    } else {
      for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) column(i, dw[i], db[i]);
    }
    sum = block_sum(sum, shared) / static_cast<float>(cols);
    along = block_sum(along, shared) / static_cast<float>(cols);
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) {
      const float normal = (load_in(x, x_at, i) - m) * r;
      store_in(dx, to, i, r * (load_in(grad, g_at, i) * load(weight.data, weight.dtype, i) - sum - normal * along));
    }
  }
  if (kRegisters) {
    for (int k = 0; k < kOwn; ++k) {
      const std::int64_t i = threadIdx.x + static_cast<std::int64_t>(k) * kBlock;
      if (i >= cols) break;
      dw[i] = own_dw[k];
      db[i] = own_db[k];
    }
  }
}

__global__ void add_parts_kernel(const float* partial, std::int64_t parts, Operand dw, Operand db, std::int64_t cols) {
  const std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  if (i >= 2 * cols) return;
  float sum = 0;
  for (std::int64_t part = 0; part < parts; ++part) sum += partial[part * 2 * cols + i];
  if (i < cols) {
    store(dw.data, dw.dtype, i, sum);
  } else {
    store(db.data, db.dtype, i - cols, sum);
  }
}

void layer_norm_backward(const Call& call) {
  const auto& in = call.op.inputs;
  const auto& out = call.op.outputs;
  const Rows r(out[0]);
  std::int64_t parts = r.rows < 256 ? r.rows : 256;
  if (parts * 2 * r.cols > call.scratch.floats) parts = call.scratch.floats / (2 * r.cols);
  const auto launch = [&](auto kernel) {
    LAUNCH(kernel, static_cast<unsigned>(parts), kBlock, 0, call.stream, Operand(in[0]), Operand(in[1]), Operand(in[2]), Operand(in[3]),
           Operand(in[4]), Operand(out[0]), call.scratch.data, r.rows, r.cols);
  };
  if (r.cols <= kOwn * kBlock) {
    launch(layer_norm_backward_kernel<true>);
  } else {
    launch(layer_norm_backward_kernel<false>);
  }
  LAUNCH(add_parts_kernel, blocks_for(2 * r.cols, kBlock), kBlock, 0, call.stream, call.scratch.data, parts, Operand(out[1]),
         Operand(out[2]), r.cols);
}

__device__ inline std::int64_t label(const Operand& targets, std::int64_t i) {
  return static_cast<const std::int64_t*>(targets.data)[i * targets.strides[targets.rank - 1]] >> 32;
}

/// One block: a mean over as many rows as a batch has tokens.
__global__ void nll_loss_kernel(Operand x, Operand targets, Operand loss, Operand weight, std::int64_t rows) {
  __shared__ float shared[kWarps];
  float sum = 0;
  for (std::int64_t row = threadIdx.x; row < rows; row += kBlock)
    sum -= load(x.data, x.dtype, row * x.strides[0] + label(targets, row) * x.strides[1]);
  sum = block_sum(sum, shared);
  if (threadIdx.x == 0) {
    store(loss.data, loss.dtype, 0, sum / static_cast<float>(rows));
    store(weight.data, weight.dtype, 0, static_cast<float>(rows));
  }
}

__global__ void nll_loss_backward_kernel(Operand grad, Operand targets, Operand weight, Operand dx, std::int64_t rows, std::int64_t cols) {
  const float value = -load(grad.data, grad.dtype, 0) / load(weight.data, weight.dtype, 0);
  for (std::int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    const std::int64_t to = row_offset(dx, row);
    const std::int64_t at = label(targets, row);
    for (std::int64_t i = threadIdx.x; i < cols; i += kBlock) store_in(dx, to, i, i == at ? value : 0.0F);
  }
}

}  // namespace

bool run_rows(const Call& call) {
  const auto& in = call.op.inputs;
  const auto& out = call.op.outputs;
  switch (call.op.kind) {
    case OpKind::softmax: {
      const Rows r(out[0]);
      LAUNCH(softmax_kernel<false>, r.blocks(), kBlock, 0, call.stream, Operand(in[0]), Operand(out[0]), r.rows, r.cols);
      return true;
    }
    case OpKind::log_softmax: {
      const Rows r(out[0]);
      LAUNCH(softmax_kernel<true>, r.blocks(), kBlock, 0, call.stream, Operand(in[0]), Operand(out[0]), r.rows, r.cols);
      return true;
    }
    case OpKind::softmax_backward: {
      const Rows r(out[0]);
      LAUNCH(softmax_backward_kernel<false>, r.blocks(), kBlock, 0, call.stream, Operand(in[0]), Operand(in[1]), Operand(out[0]), r.rows,
             r.cols);
      return true;
    }
    case OpKind::log_softmax_backward: {
      const Rows r(out[0]);
      LAUNCH(softmax_backward_kernel<true>, r.blocks(), kBlock, 0, call.stream, Operand(in[0]), Operand(in[1]), Operand(out[0]), r.rows,
             r.cols);
      return true;
    }
    case OpKind::layer_norm: {
      const Rows r(out[0]);
      LAUNCH(layer_norm_kernel, r.blocks(), kBlock, 0, call.stream, Operand(in[0]), Operand(in[1]), Operand(in[2]), Operand(out[0]),
             Operand(out[1]), Operand(out[2]), static_cast<float>(call.op.scalar), r.rows, r.cols);
      return true;
    }
    case OpKind::layer_norm_backward:
      layer_norm_backward(call);
      return true;
    case OpKind::nll_loss: {
      const Rows r(in[0]);
      LAUNCH(nll_loss_kernel, 1U, kBlock, 0, call.stream, Operand(in[0]), Operand(in[1]), Operand(out[0]), Operand(out[1]), r.rows);
      return true;
    }
    case OpKind::nll_loss_backward: {
      const Rows r(out[0]);
      LAUNCH(nll_loss_backward_kernel, r.blocks(), kBlock, 0, call.stream, Operand(in[0]), Operand(in[2]), Operand(in[3]), Operand(out[0]),
             r.rows, r.cols);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
