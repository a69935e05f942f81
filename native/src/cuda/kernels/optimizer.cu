// Updates of parameters, and what is done to gradients before. Tensors of one parameter all lie in memory alike, so they are walked as
// flat arrays.
#include "cuda/kernels/device.h"

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

namespace {

struct AdamW {
  float keep, lerp, beta2, rest2, size, correction, eps;
};

/// torch.optim.AdamW, in the order of its foreach implementation: seven passes' worth of memory in one.
__global__ void adamw_kernel(Operand p, Operand m, Operand v, Operand g, AdamW a, std::int64_t n) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const float grad = load(g.data, g.dtype, i);
    const float first = load(m.data, m.dtype, i);
    const float moved = first + (grad - first) * a.lerp;
    const float second = load(v.data, v.dtype, i) * a.beta2 + a.rest2 * grad * grad;
    store(m.data, m.dtype, i, moved);
    store(v.data, v.dtype, i, second);
    store(p.data, p.dtype, i, load(p.data, p.dtype, i) * a.keep - a.size * moved / (sqrtf(second) * a.correction + a.eps));
  }
}

__global__ void set_kernel(Operand out, float value) { store(out.data, out.dtype, 0, value); }

__global__ void sgd_kernel(Operand p, Operand g, float lr, std::int64_t n) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step)
    store(p.data, p.dtype, i, load(p.data, p.dtype, i) - lr * load(g.data, g.dtype, i));
}

__global__ void sgd_momentum_kernel(Operand p, Operand buffer, Operand g, float lr, float momentum, bool fresh, std::int64_t n) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const float before = load(buffer.data, buffer.dtype, i);
    const float now = fresh ? before : before * momentum + load(g.data, g.dtype, i);
    store(buffer.data, buffer.dtype, i, now);
    store(p.data, p.dtype, i, load(p.data, p.dtype, i) - lr * now);
  }
}

/// Gradients times the inverse loss scale; `found` becomes 1 if any of them is not finite. All writers write the same.
__global__ void unscale_kernel(Operand grad, Operand inverse, Operand found, std::int64_t n) {
  const float scale = load(inverse.data, inverse.dtype, 0);
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < n; i += step) {
    const float g = load(grad.data, grad.dtype, i);
    if (!(fabsf(g) <= 3.4028234e38F)) store(found.data, found.dtype, 0, 1.0F);
    store(grad.data, grad.dtype, i, g * scale);
  }
}

/// torch.amp.GradScaler's rule: halve after infinities, double after 2000 steps without.
__global__ void update_scale_kernel(Operand found, Operand scale, Operand tracker) {
  const bool overflowed = load(found.data, found.dtype, 0) != 0;
  float factor = load(scale.data, scale.dtype, 0);
  float steps = overflowed ? 0.0F : load(tracker.data, tracker.dtype, 0) + 1;
  if (overflowed) factor *= 0.5F;
  if (steps >= 2000) {
    factor *= 2;
    steps = 0;
  }
  store(scale.data, scale.dtype, 0, factor);
  store(tracker.data, tracker.dtype, 0, steps);
}

}  // namespace

bool run_optimizer(const Call& call) {
  const auto& in = call.op.inputs;
  const auto& out = call.op.outputs;
  const std::int64_t n = out.empty() ? 0 : out[0].elements();
  const unsigned blocks = blocks_for(n, 4 * kBlock);
  switch (call.op.kind) {
    case OpKind::adamw:
    case OpKind::adamw_fused: {
      const Hyperparameters& h = *call.op.hyper;
      const auto step = static_cast<double>(call.op.step);
      const AdamW a{static_cast<float>(1 - h.lr * h.weight_decay),
                    static_cast<float>(1 - h.beta1),
                    static_cast<float>(h.beta2),
                    static_cast<float>(1 - h.beta2),
                    static_cast<float>(h.lr / (1 - std::pow(h.beta1, step))),
                    static_cast<float>(1 / std::sqrt(1 - std::pow(h.beta2, step))),
                    static_cast<float>(h.eps)};
      LAUNCH(adamw_kernel, blocks, kBlock, 0, call.stream, Operand(out[0]), Operand(out[1]), Operand(out[2]), Operand(in[0]), a, n);
      if (out.size() > 3) LAUNCH(set_kernel, 1U, 1U, 0, call.stream, Operand(out[3]), static_cast<float>(call.op.step));
      return true;
    }
    case OpKind::sgd:
      LAUNCH(sgd_kernel, blocks, kBlock, 0, call.stream, Operand(out[0]), Operand(in[0]), static_cast<float>(call.op.hyper->lr), n);
      return true;
    case OpKind::sgd_momentum:
      LAUNCH(sgd_momentum_kernel, blocks, kBlock, 0, call.stream, Operand(out[0]), Operand(out[1]), Operand(in[0]),
             static_cast<float>(call.op.hyper->lr), static_cast<float>(call.op.hyper->momentum),
             (call.op.flags & op_flags::fresh_momentum) != 0, n);
      return true;
    case OpKind::unscale_:
      LAUNCH(unscale_kernel, blocks, kBlock, 0, call.stream, Operand(out[0]), Operand(in[0]), Operand(out[1]), n);
      return true;
    case OpKind::update_scale:
      LAUNCH(update_scale_kernel, 1U, 1U, 0, call.stream, Operand(in[0]), Operand(out[0]), Operand(out[1]));
      return true;
    default:
      return false;
  }
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
