// Updates of parameters, and what is done to gradients before. Tensors of one parameter all lie in memory alike, so they are walked as
// flat arrays.
#include "cpu/kernels/math.h"
#include "cpu/kernels/memory.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {

template <class A, int kTensors, class Fn>
void flat(const View* const (&tensors)[kTensors], bool read_only_last, Fn fn) {
  const std::int64_t n = tensors[0]->elements();
#pragma omp parallel for schedule(static) if (n >= kParallel)
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    alignas(64) A buffers[kTensors][kChunk];
    const std::int64_t count = least(kChunk, n - begin);
    A* at[kTensors];
    for (int k = 0; k < kTensors; ++k) at[k] = const_cast<A*>(load<A>(*tensors[k], begin, 1, count, buffers[k]));
    fn(at, count);
    for (int k = 0; k < kTensors - (read_only_last ? 1 : 0); ++k) store<A>(*tensors[k], begin, 1, count, at[k]);
  }
}

/// torch.optim.AdamW, in the order of its foreach implementation.
template <class A>
void adamw(const OpCall& call) {
  const Hyperparameters& h = *call.hyper;
  const auto step = static_cast<double>(call.step);
  const A keep = static_cast<A>(1 - h.lr * h.weight_decay);
  const A lerp = static_cast<A>(1 - h.beta1);
  const A beta2 = static_cast<A>(h.beta2);
  const A rest2 = static_cast<A>(1 - h.beta2);
  const A size = static_cast<A>(h.lr / (1 - std::pow(h.beta1, step)));
  const A correction = static_cast<A>(1 / std::sqrt(1 - std::pow(h.beta2, step)));
  const A eps = static_cast<A>(h.eps);
  flat<A, 4>({&call.outputs[0], &call.outputs[1], &call.outputs[2], &call.inputs[0]}, true, [=](A* const* at, std::int64_t n) {
    A* const p = at[0];
    A* const m = at[1];
    A* const v = at[2];
    const A* const g = at[3];
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      m[i] += (g[i] - m[i]) * lerp;
      v[i] = v[i] * beta2 + rest2 * g[i] * g[i];
      const A denominator = std::sqrt(v[i]) * correction + eps;
      p[i] = p[i] * keep - size * m[i] / denominator;
    }
  });
  if (call.outputs.size() > 3) {  // a fused optimizer's own count
    const A count = static_cast<A>(call.step);
    store<A>(call.outputs[3], 0, 1, 1, &count);
  }
}

template <class A>
void sgd(const OpCall& call) {
  const A lr = static_cast<A>(call.hyper->lr);
  flat<A, 2>({&call.outputs[0], &call.inputs[0]}, true, [=](A* const* at, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) at[0][i] -= lr * at[1][i];
  });
}

template <class A>
void sgd_momentum(const OpCall& call) {
  const A lr = static_cast<A>(call.hyper->lr);
  const bool fresh = (call.flags & op_flags::fresh_momentum) != 0;
  const A momentum = static_cast<A>(call.hyper->momentum);
  flat<A, 3>({&call.outputs[0], &call.outputs[1], &call.inputs[0]}, true, [=](A* const* at, std::int64_t n) {
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) {
      const A buffer = fresh ? at[1][i] : at[1][i] * momentum + at[2][i];
      at[1][i] = buffer;
      at[0][i] -= lr * buffer;
    }
  });
}

/// Gradients times the inverse loss scale; the second output becomes 1 if any of them is not finite.
template <class A>
void unscale(const OpCall& call) {
  A buffer = 0;
  const A inverse = *load<A>(call.inputs[0], 0, 1, 1, &buffer);
  int bad = 0;
  const View& grad = call.outputs[0];
  const std::int64_t n = grad.elements();
#pragma omp parallel for schedule(static) reduction(+ : bad) if (n >= kParallel)
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    alignas(64) A chunk[kChunk];
    const std::int64_t count = least(kChunk, n - begin);
    A* const g = const_cast<A*>(load<A>(grad, begin, 1, count, chunk));
    int found = 0;
    for (std::int64_t i = 0; i < count; ++i) {
      found += !(std::fabs(g[i]) <= static_cast<A>(3.4028234e38)) ? 1 : 0;
      g[i] *= inverse;
    }
    store<A>(grad, begin, 1, count, g);
    bad += found != 0 ? 1 : 0;
  }
  if (bad != 0) {
    const A one = 1;
    store<A>(call.outputs[1], 0, 1, 1, &one);
  }
}

/// torch.amp.GradScaler's rule: halve after infinities, double after 2000 steps without.
template <class A>
void update_scale(const OpCall& call) {
  A a = 0;
  A b = 0;
  A c = 0;
  const bool overflowed = *load<A>(call.inputs[0], 0, 1, 1, &a) != 0;
  A scale = *load<A>(call.outputs[0], 0, 1, 1, &b);
  A tracker = *load<A>(call.outputs[1], 0, 1, 1, &c);
  tracker = overflowed ? 0 : tracker + 1;
  if (overflowed) scale *= static_cast<A>(0.5);
  if (tracker >= 2000) {
    scale *= 2;
    tracker = 0;
  }
  store<A>(call.outputs[0], 0, 1, 1, &scale);
  store<A>(call.outputs[1], 0, 1, 1, &tracker);
}

}  // namespace

template <class A>
bool run_optimizer(const OpCall& call) {
  switch (call.kind) {
    case OpKind::adamw:
    case OpKind::adamw_fused:
      adamw<A>(call);
      return true;
    case OpKind::sgd:
      sgd<A>(call);
      return true;
    case OpKind::sgd_momentum:
      sgd_momentum<A>(call);
      return true;
    case OpKind::unscale_:
      unscale<A>(call);
      return true;
    case OpKind::update_scale:
      update_scale<A>(call);
      return true;
    default:
      return false;
  }
}

template bool run_optimizer<float>(const OpCall& call);
template bool run_optimizer<double>(const OpCall& call);

}  // namespace whatfits::native::WHATFITS_ISA
