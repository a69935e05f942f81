#include "torch/optim.h"

#include "torch/ops.h"
#include "torch/optim_state.h"
#include "torch/reduce.h"

namespace whatfits::torch {

namespace {

/// The optimizer's: it lives as long, and belongs where the parameter does.
Tensor as_state_of(const Tensor& parameter, Tensor state, const char* what) {
  Torch& torch = parameter.torch();
  const Program& program = torch.recorder.program;
  const StorageInfo& of = program.storages[parameter->storage->id];
  state.named(std::string(what) + " of " + program.labels[of.label], Category::optimizer_state);
  torch.recorder.storage(state->storage->id).layer = of.layer;
  return state;
}

}  // namespace

Tensor state_like(const Tensor& parameter, OpKind op, const char* what) {
  return as_state_of(parameter, parameter.torch().empty_strided(op, parameter.shape(), parameter.strides(), parameter.dtype()), what);
}

Tensor filled_state(const Tensor& parameter, const Shape& shape, DType dtype, OpKind op, const char* what) {
  Torch& torch = parameter.torch();
  Tensor state = as_state_of(parameter, torch.empty(op, shape, dtype), what);
  torch.recorder.op({.kind = OpKind::fill}, {}, {state.id()});
  return state;
}

Tensor temporary_like(const Tensor& x, OpKind op, const char* label) {
  Tensor t = x.torch().empty_strided(op, x.shape(), x.strides(), x.dtype());
  t.named(label);
  return t;
}

OptimizerState::OptimizerState(Torch& torch, Optimizer kind, const std::vector<Tensor>& parameters, const std::vector<Tensor>* partition)
    : torch_(torch), kind_(kind), all_(parameters), parameters_(partition ? *partition : parameters) {
  if (kind != Optimizer::adagrad) return;
  for (const Tensor& p : parameters) {
    exp_avg_sq_.push_back(state_like(p, OpKind::adagrad, "sum of squares"));
    torch.recorder.op({.kind = OpKind::fill}, {}, {exp_avg_sq_.back().id()});
  }
}

void OptimizerState::step() {
  update();
  if (second_) second_->update();
}

/// A DTensor whose gradient came whole is read in a copy of this rank's piece: by lerp_ once, by addcmul_ twice.
void OptimizerState::read_gradients() {
  const auto copies = [this](int times) {
    std::vector<Tensor> pieces;
    for (const Tensor& p : parameters_) {
      for (int i = 0; i < times && p->grad.elements() != p.elements(); ++i) {
        pieces.push_back(torch_.empty(OpKind::copy, p.shape(), p->grad.dtype()));
        pieces.back().named("this rank's piece of a gradient");
        torch_.recorder.op({.kind = OpKind::copy}, {p->grad.id()}, {pieces.back().id()});
      }
    }
    while (!pieces.empty()) pieces.pop_back();
  };
  copies(1);
  copies(2);
}

void OptimizerState::update() {
  switch (kind_) {
    case Optimizer::adamw:
    case Optimizer::adam:
    case Optimizer::adam_amsgrad:
      return adamw_foreach();
    case Optimizer::adamw_fused:
      return adamw_fused();
    case Optimizer::adamw_for_loop:
      return adamw_for_loop();
    case Optimizer::sgd:
      return sgd(false);
    case Optimizer::sgd_momentum:
    case Optimizer::sgd_momentum_fused:
      return sgd(true);
    case Optimizer::adagrad:
      return adagrad();
    case Optimizer::rmsprop:
      return rmsprop();
    case Optimizer::adafactor:
      return adafactor();
    case Optimizer::adafactor_foreach:
      return adafactor_foreach();
    case Optimizer::adafactor_transformers:
      return adafactor_transformers();
    case Optimizer::adamw_8bit:
    case Optimizer::adamw_8bit_paged:
      return adamw_8bit();
    case Optimizer::muon:
      return muon();
    case Optimizer::lion:
      return lion();
    case Optimizer::none:
      return;
  }
}

void OptimizerState::make_adam_state(bool step_on_device) {
  if (!exp_avg_.empty()) return;
  for (const Tensor& p : parameters_) {
    if (step_on_device) {
      const Program& program = torch_.recorder.program;
      steps_.push_back(full(torch_, {}, DType::float32, 0));
      steps_.back().named("step of " + program.labels[program.storages[p->storage->id].label], Category::optimizer_state);
    }
    for (auto [states, name] : {std::pair{&exp_avg_, "exp_avg"}, std::pair{&exp_avg_sq_, "exp_avg_sq"}}) {
      states->push_back(state_like(p, OpKind::adamw, name));
      torch_.recorder.op({.kind = OpKind::fill}, {}, {states->back().id()});
    }
    if (kind_ == Optimizer::adam_amsgrad) {
      max_exp_avg_sq_.push_back(state_like(p, OpKind::adam, "max_exp_avg_sq"));
      torch_.recorder.op({.kind = OpKind::fill}, {}, {max_exp_avg_sq_.back().id()});
    }
  }
}

void OptimizerState::adam(OpKind kind, std::size_t i, std::initializer_list<TensorId> scratch) {
  const Tensor& p = parameters_[i];
  torch_.recorder.op({.kind = kind}, {p->grad.id()}, {p.id(), exp_avg_[i].id(), exp_avg_sq_[i].id()}, scratch);
}

void OptimizerState::adamw_foreach() {
  make_adam_state(false);
  read_gradients();
  // torch._foreach_sqrt makes the denominators of all parameters at once; the list is dropped last to first.
  std::vector<Tensor> denominators;
  for (const Tensor& p : parameters_) {
    denominators.push_back(torch_.empty_strided(OpKind::adamw, p.shape(), p.strides(), p.dtype()));
    denominators.back().named("square roots of exp_avg_sq");
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) adam(OpKind::adamw, i, {denominators[i].id()});
  while (!denominators.empty()) denominators.pop_back();
}

void OptimizerState::adamw_fused() {
  make_adam_state(true);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    torch_.recorder.op({.kind = OpKind::adamw_fused}, {p->grad.id()}, {p.id(), exp_avg_[i].id(), exp_avg_sq_[i].id(), steps_[i].id()});
  }
}

void OptimizerState::adamw_for_loop() {
  make_adam_state(false);
  // denom = (exp_avg_sq.sqrt() / bias_correction2_sqrt).add_(eps): the name is bound again only when the next one is made. One
  // kernel does the whole update, so what PyTorch would compute into these two is never written.
  Tensor denom;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    Tensor root = torch_.empty_strided(OpKind::sqrt, p.shape(), p.strides(), p.dtype());
    root.named("square root of exp_avg_sq");
    Tensor quotient = torch_.empty_strided(OpKind::div, p.shape(), p.strides(), p.dtype());
    quotient.named("AdamW's denominator");
    root.reset();
    adam(OpKind::adamw, i, {quotient.id()});
    denom = std::move(quotient);
  }
}

void OptimizerState::sgd(bool momentum) {
  const bool first = momentum && exp_avg_.empty();
  for (const Tensor& p : parameters_) {
    if (!first) break;
    exp_avg_.push_back(state_like(p, OpKind::sgd_momentum, "momentum buffer"));
    torch_.recorder.op({.kind = OpKind::copy}, {p->grad.id()}, {exp_avg_.back().id()});
  }
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    if (momentum) {
      const std::uint8_t fresh = first ? op_flags::fresh_momentum : std::uint8_t{0};
      torch_.recorder.op({.kind = OpKind::sgd_momentum, .flags = fresh}, {p->grad.id()}, {p.id(), exp_avg_[i].id()});
    } else {
      torch_.recorder.op({.kind = OpKind::sgd}, {p->grad.id()}, {p.id()});
    }
  }
}

namespace {

/// A list as foreach operators make it, like the parameters; dropped last to first.
struct TensorList {
  TensorList(Torch& torch, const std::vector<Tensor>& parameters, OpKind op, const char* label) {
    for (const Tensor& p : parameters) {
      tensors.push_back(torch.empty_strided(op, p.shape(), p.strides(), p.dtype()));
      tensors.back().named(label);
    }
  }
  ~TensorList() {
    while (!tensors.empty()) tensors.pop_back();
  }
  TensorList(const TensorList&) = delete;
  TensorList& operator=(const TensorList&) = delete;
  std::vector<Tensor> tensors;
};

}  // namespace

void OptimizerState::adagrad() {
  const TensorList std(torch_, parameters_, OpKind::sqrt, "square roots of the sums");
  const TensorList numerator(torch_, parameters_, OpKind::adagrad, "gradients, scaled");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch_.recorder.op({.kind = OpKind::adagrad}, {parameters_[i]->grad.id()}, {parameters_[i].id(), exp_avg_sq_[i].id()},
                       {std.tensors[i].id(), numerator.tensors[i].id()});
  }
}

void OptimizerState::rmsprop() {
  if (exp_avg_sq_.empty()) {
    for (const Tensor& p : parameters_) {
      exp_avg_sq_.push_back(state_like(p, OpKind::rmsprop, "square_avg"));
      torch_.recorder.op({.kind = OpKind::fill}, {}, {exp_avg_sq_.back().id()});
    }
  }
  const TensorList avg(torch_, parameters_, OpKind::sqrt, "square roots of square_avg");
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    torch_.recorder.op({.kind = OpKind::rmsprop}, {parameters_[i]->grad.id()}, {parameters_[i].id(), exp_avg_sq_[i].id()},
                       {avg.tensors[i].id()});
  }
}

void OptimizerState::zero_grad(ZeroGrad how) {
  for (const Tensor& p : all_) {
    if (!p->grad) continue;
    if (how == ZeroGrad::set_to_none) {
      p->grad.reset();
    } else {
      torch_.recorder.op({.kind = OpKind::zero_}, {}, {p->grad.id()});
    }
  }
}

void clip_grad_norm(Torch& torch, const std::vector<Tensor>& parameters) {
  constexpr OpKind op = OpKind::foreach_norm;
  Tensor coefficient;
  Tensor clamped;
  Tensor total;
  const Frame frame{&coefficient, &clamped, &total};
  {
    std::vector<Tensor> norms;
    {
      // One partial norm for each chunk of 65,536 elements of each tensor, padded to the tensor with the most.
      std::int64_t chunks = 1;
      for (const Tensor& p : parameters) {
        const std::int64_t n = (p->grad.elements() + 65535) / 65536;
        if (n > chunks) chunks = n;
      }
      const Tensor partial = torch.scratch(op, static_cast<Bytes>(chunks) * parameters.size() * size_of(DType::float32))
                                 .named("partial norms of the gradients");
      for (const Tensor& p : parameters) {
        norms.push_back(torch.empty(op, {}, p->grad.dtype()));
        norms.back().named("norm of a gradient");
        torch.recorder.op({.kind = op}, {p->grad.id()}, {norms.back().id()}, {partial.id()});
      }
    }
    Tensor stacked = torch.empty(OpKind::stack, {Dim{static_cast<std::int64_t>(norms.size())}}, norms[0].dtype());
    stacked.named("norms of the gradients");
    for (std::size_t i = 0; i < norms.size(); ++i)
      torch.recorder.op({.kind = OpKind::stack, .scalar = static_cast<double>(i)}, {norms[i].id()}, {stacked.id()});
    total = torch.empty(OpKind::vector_norm, {}, stacked.dtype());
    total.named("norm of all gradients");
    torch.recorder.op({.kind = OpKind::vector_norm}, {stacked.id()}, {total.id()});
    stacked.reset();
    while (!norms.empty()) norms.pop_back();  // CPython drops a list last to first
  }
  const auto next = [&](OpKind kind, const Tensor& from, double value) {
    Tensor s = torch.empty(kind, {}, from.dtype());
    s.named("clipping coefficient");
    torch.recorder.op({.kind = kind, .scalar = value}, {from.id()}, {s.id()});
    return s;
  };
  {
    Tensor shifted = next(OpKind::add, total, 1e-6);
    Tensor inverse = next(OpKind::reciprocal, shifted, 0);
    coefficient = next(OpKind::mul_scalar, inverse, 1);
  }
  clamped = next(OpKind::clamp, coefficient, 1);
  for (const Tensor& p : parameters) torch.recorder.op({.kind = OpKind::foreach_mul_}, {clamped.id()}, {p->grad.id()});
}

Tensor GradScaler::scale(const Tensor& loss) {
  if (!scale_) {
    scale_ = full(torch_, {}, DType::float32, 65536).named("loss scale", Category::optimizer_state);
    growth_tracker_ = full(torch_, {}, DType::float32, 0).named("steps since the loss scale grew", Category::optimizer_state);
  }
  return mul(loss, scale_).named("scaled loss");
}

void GradScaler::unscale(const std::vector<Tensor>& parameters) {
  // inv_scale = self._scale.double().reciprocal().float()
  Tensor inverse;
  {
    Tensor wide = to(scale_, DType::float64);
    wide.named("loss scale in float64");
    Tensor reciprocal = torch_.empty(OpKind::reciprocal, {}, DType::float64);
    reciprocal.named("inverse loss scale in float64");
    torch_.recorder.op({.kind = OpKind::reciprocal}, {wide.id()}, {reciprocal.id()});
    wide.reset();
    inverse = to(reciprocal, DType::float32);
    inverse.named("inverse loss scale");
  }
  look_for_infinities(std::move(inverse), parameters);
  unscaled_ = true;
}

// _unscale_grads_
void GradScaler::look_for_infinities(Tensor inverse, const std::vector<Tensor>& parameters) {
  const Tensor found_inf = full(torch_, {}, DType::float32, 0);
  found_inf.named("infinities found");
  // Each device works on copies; the copy of found_inf stays until update().
  found_inf_ = clone(found_inf);
  found_inf_.named("infinities found on the device", Category::optimizer_state);
  Tensor inverse_copy = clone(inverse);
  inverse_copy.named("inverse loss scale on the device");
  for (const Tensor& p : parameters) torch_.recorder.op({.kind = OpKind::unscale_}, {inverse_copy.id()}, {p->grad.id(), found_inf_.id()});
  inverse_copy.reset();
  inverse.reset();
}

void GradScaler::step(OptimizerState& optimizer, const std::vector<Tensor>& parameters) {
  // A fused optimizer looks at found_inf on the device itself, in a sum over the devices made for it, and unscales as it goes by a
  // product made for it, if nobody has unscaled before: then the look for infinities multiplies by one.
  Tensor total, grad_scale;
  if (optimizer.fused()) {
    if (!unscaled_) look_for_infinities(full(torch_, {}, DType::float32, 1), parameters);
    total = full(torch_, {}, DType::float32, 0).named("infinities found, summed");
    if (!unscaled_) grad_scale = mul(scale_, 1.0).named("loss scale of the fused optimizer");
  }
  optimizer.step();
  grad_scale.reset();
}

void GradScaler::update() {
  torch_.recorder.op({.kind = OpKind::update_scale}, {found_inf_.id()}, {scale_.id(), growth_tracker_.id()});
  found_inf_.reset();
  unscaled_ = false;
}

}  // namespace whatfits::torch
