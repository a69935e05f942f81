// torch.optim, gradient clipping and the gradient scaler, as far as memory sees them.
//
// Sources: torch/optim/adamw.py, sgd.py, torch/nn/utils/clip_grad.py and torch/amp/grad_scaler.py of PyTorch 2.6.
#pragma once

#include <memory>
#include <vector>

#include "torch/tensor.h"
#include "torch/torch.h"
#include "whatfits/config.h"

namespace whatfits::torch {

class OptimizerState {
 public:
  /// `partition`: what of the parameters is updated here (ZeroRedundancyOptimizer); null: all of them.
  OptimizerState(Torch& torch, Optimizer kind, const std::vector<Tensor>& parameters, const std::vector<Tensor>* partition = nullptr);
  void step();
  /// A second group, updated after this one.
  void add_group(const std::vector<Tensor>& parameters) { second_ = std::make_unique<OptimizerState>(torch_, kind_, parameters); }
  /// Whether it takes the gradient scaler's scale itself. ZeroRedundancyOptimizer does not, whatever it wraps.
  bool fused() const { return &all_ == &parameters_ && (kind_ == Optimizer::adamw_fused || kind_ == Optimizer::sgd_momentum_fused); }
  void zero_grad(ZeroGrad how);

 private:
  void update();
  void read_gradients();
  void adamw_foreach();
  void adamw_fused();
  void adamw_for_loop();
  void sgd(bool momentum);
  void adagrad();
  void rmsprop();
  void adafactor();               ///< torch.optim.Adafactor, parameter by parameter
  void adafactor_foreach();       ///< the same, all matrices and then all vectors at once
  void adafactor_transformers();  ///< transformers.Adafactor with relative steps
  void make_adafactor_state();
  void adamw_8bit();  ///< bitsandbytes' AdamW8bit and PagedAdamW8bit
  void muon();        ///< torch.optim.Muon for the matrices of the blocks, AdamW for the rest
  void lion();        ///< lion-pytorch
  void make_adam_state(bool step_on_device);
  void adam(OpKind kind, std::size_t i, std::initializer_list<TensorId> scratch);

  Torch& torch_;
  Optimizer kind_;
  const std::vector<Tensor>& all_;         ///< whose gradients zero_grad() resets
  const std::vector<Tensor>& parameters_;  ///< what is updated
  std::vector<Tensor> steps_;              ///< fused only: a counter on the device for each parameter
  std::vector<Tensor> exp_avg_;            ///< momentum_buffer of SGD
  std::vector<Tensor> exp_avg_sq_;
  std::vector<Tensor> max_exp_avg_sq_;   ///< AMSGrad's
  std::vector<Tensor> row_, col_;        ///< Adafactor's factors of a matrix; of a vector `row_` is the variance
  std::vector<Tensor> rms_;              ///< of transformers' Adafactor
  std::vector<Tensor> absmax_;           ///< scales of 8-bit moments, two for each parameter
  std::vector<Tensor> maps_;             ///< code books of 8-bit moments, two for all
  std::vector<Tensor> matrices_, rest_;  ///< Muon's parameters, and those it leaves to AdamW
  std::unique_ptr<OptimizerState> adamw_of_rest_;
  std::unique_ptr<OptimizerState> second_;
};

/// torch.nn.utils.clip_grad_norm_ with the foreach kernels.
void clip_grad_norm(Torch& torch, const std::vector<Tensor>& parameters);

/// torch.amp.GradScaler
class GradScaler {
 public:
  explicit GradScaler(Torch& torch) : torch_(torch) {}
  Tensor scale(const Tensor& loss);
  void unscale(const std::vector<Tensor>& parameters);
  /// A fused optimizer unscales by itself where unscale() has not been called; for the others it must have been.
  void step(OptimizerState& optimizer, const std::vector<Tensor>& parameters);
  void update();

 private:
  Torch& torch_;
  void look_for_infinities(Tensor inverse, const std::vector<Tensor>& parameters);
  bool unscaled_ = false;
  Tensor scale_, growth_tracker_, found_inf_;
};

}  // namespace whatfits::torch
