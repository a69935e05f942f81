// Optimizers from outside of PyTorch 2.6: 8-bit AdamW, Muon, Lion.
//
// Sources: bitsandbytes 0.49's optim/optimizer.py (Optimizer2State, block-wise, min_8bit_size 4096) and functional.py (get_paged);
// torch/optim/_muon.py of PyTorch 2.9; lion-pytorch's lion_pytorch.py without Triton.
#include <string>

#include "torch/ops.h"
#include "torch/optim.h"
#include "torch/optim_state.h"
#include "torch/reduce.h"

namespace whatfits::torch {

namespace {

constexpr std::int64_t kScaleBlock = 256;     ///< elements with one scale
constexpr std::int64_t kSmallest = 4096;      ///< a smaller tensor's moments stay in float32
constexpr std::int64_t kPagedFrom = 100'000;  ///< elements; moments of a smaller tensor are never paged

}  // namespace

/// Two moments of a byte an element and a scale for each block; one kernel updates all of them, without temporaries. Those of large
/// tensors are in managed memory where they are paged, which PyTorch's allocator knows nothing of.
void OptimizerState::adamw_8bit() {
  constexpr OpKind op = OpKind::adamw_8bit;
  const bool first = exp_avg_.empty();
  std::int64_t paged_bytes = 0;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    const std::int64_t n = p.elements();
    const bool small = n < kSmallest;
    if (first) {
      const DType dtype = small ? DType::float32 : DType::uint8;
      for (const char* label : {"code book of exp_avg in 8 bits", "code book of exp_avg_sq in 8 bits"}) {
        if (small || maps_.size() == 2) break;
        maps_.push_back(full(torch_, {Dim{256}}, DType::float32, 0));
        maps_.back().named(label, Category::optimizer_state);
      }
      const bool paged = kind_ == Optimizer::adamw_8bit_paged && n >= kPagedFrom;
      if (paged) paged_bytes += 2 * n;
      exp_avg_.push_back(paged ? Tensor() : filled_state(p, p.shape(), dtype, op, "exp_avg"));
      exp_avg_sq_.push_back(paged ? Tensor() : filled_state(p, p.shape(), dtype, op, "exp_avg_sq"));
      for (const char* what : {"scales of exp_avg", "scales of exp_avg_sq"})
        absmax_.push_back(small ? Tensor() : filled_state(p, {Dim{(n + kScaleBlock - 1) / kScaleBlock}}, DType::float32, op, what));
    }
    std::vector<TensorId> operands{p->grad.id(), p.id()};
    for (const Tensor* t : {&exp_avg_[i], &exp_avg_sq_[i], &absmax_[2 * i], &absmax_[2 * i + 1]}) {
      if (*t) operands.push_back(t->id());
    }
    torch_.recorder.op({.kind = op, .inputs = 1, .outputs = static_cast<std::uint16_t>(operands.size() - 1)}, operands);
  }
  if (paged_bytes > 0) {
    const std::string note = "paged moments, " + std::to_string(paged_bytes) +
                             " bytes, are in memory that CUDA moves between host and card: PyTorch does not count them, and neither do "
                             "allocated and reserved here";
    torch_.note(note.c_str());
  }
}

void OptimizerState::muon() {
  constexpr OpKind op = OpKind::muon;
  constexpr DType half = DType::bfloat16;
  constexpr int kSteps = 5;
  if (!adamw_of_rest_) {
    for (const Tensor& p : parameters_) {
      const bool matrix = p.rank() == 2 && torch_.recorder.storage(p->storage->id).layer != kNoLayer;
      (matrix ? matrices_ : rest_).push_back(p);
    }
    adamw_of_rest_ = std::make_unique<OptimizerState>(torch_, Optimizer::adamw, rest_);
    for (const Tensor& p : matrices_) exp_avg_.push_back(filled_state(p, p.shape(), p.dtype(), op, "momentum buffer"));
  }
  Tensor update;
  for (std::size_t i = 0; i < matrices_.size(); ++i) {
    const Tensor& p = matrices_[i];
    update = temporary_like(p, op, "Muon: gradient and momentum, interpolated");
    torch_.recorder.op({.kind = op}, {p->grad.id()}, {exp_avg_[i].id(), update.id()});
    // _zeropower_via_newtonschulz
    const bool tall = p.size(0).size > p.size(1).size;
    Tensor gram, gram_update;
    Tensor ortho = to(update, half);
    ortho.named("Muon: update, orthogonalised");
    const Frame frame{&gram, &gram_update};
    if (tall) ortho = t(ortho);
    {
      const Tensor norm = torch_.empty(OpKind::vector_norm, {}, half);
      run_sum(ortho, norm, full_sum(ortho.elements(), size_of(half), {torch_.device.sm_count, torch_.device.compute_capability}));
      const Tensor clamped = torch_.empty(OpKind::clamp, {}, half);
      torch_.recorder.op({.kind = op}, {norm.id()}, {ortho.id()}, {clamped.id()});
    }
    const auto addmm = [&](const Tensor& input, const Tensor& a, const Tensor& b) {
      Tensor out = torch_.empty(OpKind::addmm, input.shape(), half);
      torch_.recorder.op({.kind = OpKind::addmm}, {input.id(), a.id(), b.id()}, {out.id()});
      return out;
    };
    for (int step = 0; step < kSteps; ++step) {
      gram = mm(ortho, t(ortho));
      gram.named("Muon: Gram matrix");
      gram_update = addmm(gram, gram, gram);
      gram_update.named("Muon: polynomial of the Gram matrix");
      ortho = addmm(ortho, gram_update, ortho);
      ortho.named("Muon: update, orthogonalised");
    }
    if (tall) ortho = t(ortho);
    update = std::move(ortho);
    torch_.recorder.op({.kind = op}, {update.id()}, {p.id()});
  }
  update.reset();
  if (!rest_.empty()) adamw_of_rest_->step();
}

void OptimizerState::lion() {
  constexpr OpKind op = OpKind::lion;
  const bool first = exp_avg_.empty();
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    if (first) exp_avg_.push_back(filled_state(p, p.shape(), p.dtype(), op, "exp_avg"));
    // exp_avg.clone().mul_(beta1).add(grad, alpha=1 - beta1).sign_()
    Tensor copy = temporary_like(p, op, "Lion: copy of exp_avg");
    const Tensor update = temporary_like(p, op, "Lion: update");
    copy.reset();
    torch_.recorder.op({.kind = op}, {p->grad.id()}, {p.id(), exp_avg_[i].id()}, {update.id()});
  }
}

}  // namespace whatfits::torch
