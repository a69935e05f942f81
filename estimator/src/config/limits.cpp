// How large a step can be at most. Not an estimate: only a guard that keeps the replay's 64-bit sums from wrapping.
#include <algorithm>
#include <cstdint>
#include <limits>

#include "whatfits/request.h"

namespace whatfits {
namespace {

// Unsigned 64-bit that sticks at its maximum. (128-bit integers are not standard, and slow in WebAssembly.)
class Saturating {
 public:
  explicit Saturating(std::int64_t n) : n_(static_cast<std::uint64_t>(std::max<std::int64_t>(n, 0))) {}

  friend Saturating operator*(Saturating a, Saturating b) {
    if (a.n_ != 0 && b.n_ > top / a.n_) return full();
    a.n_ *= b.n_;
    return a;
  }
  friend Saturating operator+(Saturating a, Saturating b) {
    if (b.n_ > top - a.n_) return full();
    a.n_ += b.n_;
    return a;
  }
  friend Saturating largest(Saturating a, Saturating b) { return a.n_ < b.n_ ? b : a; }
  std::uint64_t value() const { return n_; }

 private:
  static constexpr std::uint64_t top = std::numeric_limits<std::uint64_t>::max();
  static Saturating full() {
    Saturating n(0);
    n.n_ = top;
    return n;
  }
  std::uint64_t n_;
};

}  // namespace

std::uint64_t bytes_bound(const Config& config) {
  const Saturating B(config.batch);
  const Saturating T(config.seq_len);
  const Saturating V(config.model.vocab_size);
  const Saturating N(config.model.n_positions);
  const Saturating C(config.model.n_embd);
  const Saturating NH(config.model.n_head);
  const Saturating L(config.model.n_layer);
  // Hugging Face's families: heads wider than the residual stream, wider MLPs, experts.
  const Saturating W = largest(C, NH * Saturating(config.model.head_dim));
  const Saturating I = largest(C * Saturating(4), Saturating(config.model.n_inner));
  const Saturating E(std::max<std::int64_t>(config.model.n_expert, 1));
  const Saturating K(std::max<std::int64_t>(config.model.n_expert_used, 1));
  const auto n = [](std::int64_t k) { return Saturating(k); };
  constexpr std::int64_t kElement = 8;  // bytes: an fp32 tensor and its cast, or an int64

  // Generous on purpose. A weight with its gradient, two moments, a cast and foreach's temporaries is some 8 fp32 tensors: 64
  // bytes count 16. A hidden state has some 20 relatives of width C and 12 of width 4C in a block, forward and backward;
  // scores and logits some 12.
  const Saturating parameters = V * C * n(2) + N * C + L * (n(4) * C * W + n(3) * C * I * E + n(16) * C) + n(2) * C;
  const Saturating hidden = B * T * K * (W * n(kElement * 40) + I * n(kElement * 16));
  const Saturating scores = B * NH * T * T * n(kElement * 16);
  const Saturating logits = B * T * V * n(kElement * 16);
  // Liger's loss and a chunked one make casts and gradients of the head for each part: as many as V / C, or as were asked for.
  const Saturating parts(
      (config.loss == Loss::fused_linear ? config.model.vocab_size / std::max<std::int64_t>(config.model.n_embd, 1) + 2 : 0) +
      (config.loss == Loss::chunked ? config.loss_chunks : 0));
  const Saturating heads = parts * V * C * n(kElement * 8);
  const Saturating ids = B * T * n(kElement * 16);
  const Saturating mask = N * N * n(kElement);
  const Saturating warmup = Saturating(config.script.warmup_matmul) * Saturating(config.script.warmup_matmul) * n(16);
  // What kernels stage in: cublasLt's 1 MiB, partial sums of tens of MiB, on the largest card well below this.
  const Saturating scratch = n(std::int64_t{1} << 30);
  // FSDP cuts along the first dimension into as many rows as there are cards, at least, of each of some 20 parameters in a block.
  const Saturating padding = Saturating(config.parallel ? config.parallel->gpus : 0) * (L + n(1)) * (C + I + W) * n(kElement * 64);
  return (scratch + padding + parameters * n(64) + (L + n(1)) * (hidden + scores + mask) + logits + heads + ids + warmup).value();
}

}  // namespace whatfits
