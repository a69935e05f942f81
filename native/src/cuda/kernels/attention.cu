// Causal attention without score matrices in memory. A warp has one row, its lanes share the head's width.
#include "cuda/kernels/device.h"

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

namespace {

constexpr int kPerLane = 8;  // heads up to 256 wide

struct Heads {
  std::int64_t batch, heads, tokens;
  int width;
  explicit Heads(const View& q) : batch(q.size(0)), heads(q.size(1)), tokens(q.size(2)), width(static_cast<int>(q.size(3))) {}
  __host__ __device__ std::int64_t rows() const { return batch * heads * tokens; }
};

/// A row of a [B, NH, T, D] operand, a lane's share of it in registers.
struct Row {
  float at[kPerLane];
};

__device__ inline std::int64_t start(const Operand& v, const Heads& h, std::int64_t head, std::int64_t t) {
  return head / h.heads * v.strides[0] + head % h.heads * v.strides[1] + t * v.strides[2];
}
__device__ inline Row load_row(const Operand& v, const Heads& h, std::int64_t head, std::int64_t t) {
  const std::int64_t from = start(v, h, head, t);
  const int lane = static_cast<int>(threadIdx.x % 32);
  Row row;
  for (int k = 0; k < kPerLane; ++k)
    row.at[k] = lane + 32 * k < h.width ? load(v.data, v.dtype, from + (lane + 32 * k) * v.strides[3]) : 0.0F;
  return row;
}
__device__ inline void store_row(const Operand& v, const Heads& h, std::int64_t head, std::int64_t t, const Row& row) {
  const std::int64_t to = start(v, h, head, t);
  const int lane = static_cast<int>(threadIdx.x % 32);
  for (int k = 0; k < kPerLane; ++k) {
    if (lane + 32 * k < h.width) store(v.data, v.dtype, to + (lane + 32 * k) * v.strides[3], row.at[k]);
  }
}
/// The dot product, in every lane of the warp.
__device__ inline float dot(const Row& a, const Row& b) {
  float sum = 0;
  for (int k = 0; k < kPerLane; ++k) sum += a.at[k] * b.at[k];
  for (int step = 16; step > 0; step /= 2) sum += __shfl_xor_sync(~0U, sum, step);
  return sum;
}

__global__ void forward_kernel(Operand q, Operand k, Operand v, Operand out, float* lse, std::int64_t lse_row, float scale, Heads h) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= h.rows()) return;
  const std::int64_t head = at / h.tokens;
  const std::int64_t t = at % h.tokens;
  const Row query = load_row(q, h, head, t);
  Row sum = {};
  float most = -INFINITY;
  float total = 0;
  for (std::int64_t j = 0; j <= t; ++j) {
    const float score = dot(query, load_row(k, h, head, j)) * scale;
    const float higher = score > most ? score : most;
    const float keep = expf(most - higher);
    const float weight = expf(score - higher);
    const Row value = load_row(v, h, head, j);
    for (int i = 0; i < kPerLane; ++i) sum.at[i] = sum.at[i] * keep + weight * value.at[i];
    total = total * keep + weight;
    most = higher;
  }
  for (int i = 0; i < kPerLane; ++i) sum.at[i] /= total;
  store_row(out, h, head, t, sum);
  if (lse && threadIdx.x % 32 == 0) lse[head * lse_row + t] = most + logf(total);
}

__global__ void query_kernel(Operand grad, Operand q, Operand k, Operand v, Operand out, const float* lse, std::int64_t lse_row, Operand dq,
                             float scale, Heads h) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= h.rows()) return;
  const std::int64_t head = at / h.tokens;
  const std::int64_t t = at % h.tokens;
  const Row query = load_row(q, h, head, t);
  const Row upstream = load_row(grad, h, head, t);
  const float delta = dot(upstream, load_row(out, h, head, t));
  const float shift = lse[head * lse_row + t];
  Row sum = {};
  for (std::int64_t j = 0; j <= t; ++j) {
    const Row key = load_row(k, h, head, j);
    const float p = expf(dot(query, key) * scale - shift);
    const float ds = p * (dot(upstream, load_row(v, h, head, j)) - delta) * scale;
    for (int i = 0; i < kPerLane; ++i) sum.at[i] += ds * key.at[i];
  }
  store_row(dq, h, head, t, sum);
}

__global__ void key_kernel(Operand grad, Operand q, Operand k, Operand v, Operand out, const float* lse, std::int64_t lse_row, Operand dk,
                           Operand dv, float scale, Heads h) {
  const std::int64_t at = static_cast<std::int64_t>(blockIdx.x) * kWarps + threadIdx.x / 32;
  if (at >= h.rows()) return;
  const std::int64_t head = at / h.tokens;
  const std::int64_t j = at % h.tokens;
  const Row key = load_row(k, h, head, j);
  const Row value = load_row(v, h, head, j);
  Row key_sum = {};
  Row value_sum = {};
  for (std::int64_t t = j; t < h.tokens; ++t) {
    const Row query = load_row(q, h, head, t);
    const Row upstream = load_row(grad, h, head, t);
    const float delta = dot(upstream, load_row(out, h, head, t));
    const float p = expf(dot(query, key) * scale - lse[head * lse_row + t]);
    const float ds = p * (dot(upstream, value) - delta) * scale;
    for (int i = 0; i < kPerLane; ++i) {
      key_sum.at[i] += ds * query.at[i];
      value_sum.at[i] += p * upstream.at[i];
    }
  }
  store_row(dk, h, head, j, key_sum);
  store_row(dv, h, head, j, value_sum);
}

/// Elements from one head's log-sum-exp to the next: a tensor [B, NH, T], or plain bytes with rows padded (memory-efficient attention).
std::int64_t lse_stride(const View& v, const Heads& h) {
  return v.rank == 3 ? h.tokens : static_cast<std::int64_t>(v.bytes / sizeof(float)) / (h.batch * h.heads);
}

void forward(const Call& call) {
  const auto& in = call.op.inputs;
  const auto& out = call.op.outputs;
  const Heads h(in[0]);
  float* const lse = out.size() > 1 ? static_cast<float*>(out[1].data) : nullptr;
  LAUNCH(forward_kernel, static_cast<unsigned>(divide_up(h.rows(), kWarps)), kBlock, 0, call.stream, Operand(in[0]), Operand(in[1]),
         Operand(in[2]), Operand(out[0]), lse, lse ? lse_stride(out[1], h) : 0, static_cast<float>(1 / std::sqrt(call.op.scalar)), h);
}

/// Flash attention has the gradient and the output as [B, T, NH, D], the others as [B, NH, T, D].
void backward(const Call& call, bool tokens_first) {
  const auto& in = call.op.inputs;
  const auto& out = call.op.outputs;
  const Heads h(in[1]);
  Operand grad(in[0]);
  Operand result(in[4]);
  if (tokens_first) {
    for (Operand* t : {&grad, &result}) {
      const std::int64_t stride = t->strides[1];
      t->strides[1] = t->strides[2];
      t->strides[2] = stride;
    }
  }
  const auto* const lse = static_cast<const float*>(in[5].data);
  const std::int64_t lse_row = lse_stride(in[5], h);
  const auto scale = static_cast<float>(1 / std::sqrt(call.op.scalar));
  const auto blocks = static_cast<unsigned>(divide_up(h.rows(), kWarps));
  LAUNCH(query_kernel, blocks, kBlock, 0, call.stream, grad, Operand(in[1]), Operand(in[2]), Operand(in[3]), result, lse, lse_row,
         Operand(out[0]), scale, h);
  LAUNCH(key_kernel, blocks, kBlock, 0, call.stream, grad, Operand(in[1]), Operand(in[2]), Operand(in[3]), result, lse, lse_row,
         Operand(out[1]), Operand(out[2]), scale, h);
}

}  // namespace

bool run_attention(const Call& call) {
  switch (call.op.kind) {
    case OpKind::sdpa_flash:
    case OpKind::sdpa_efficient:
      forward(call);
      return true;
    case OpKind::sdpa_flash_backward:
      backward(call, true);
      return true;
    case OpKind::sdpa_efficient_backward:
      backward(call, false);
      return true;
    default:
      return false;
  }
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
