// Adafactor: the second moment of a matrix kept as a row and a column. PyTorch's own, one parameter at a time or by foreach, and that of
// Transformers. Sources: torch/optim/_adafactor.py of PyTorch 2.6, transformers/optimization.py of Transformers 5.12.
#include "torch/ops.h"
#include "torch/optim.h"
#include "torch/optim_state.h"
#include "torch/reduce.h"

namespace whatfits::torch {

namespace {

constexpr OpKind kOp = OpKind::adafactor;

Multiprocessors card_of(const Torch& torch) { return {torch.device.sm_count, torch.device.compute_capability}; }

/// x.norm(2), or a mean over everything.
Tensor over_all(const Tensor& x, OpKind op) {
  Torch& torch = x.torch();
  Tensor out = torch.empty(op, {}, x.dtype());
  run_sum(x, out, full_sum(x.elements(), size_of(x.dtype()), card_of(torch)));
  return out;
}

/// The norm or mean over the last dimension, or over the last but one (of a matrix: its rows).
Tensor over_last(const Tensor& x, OpKind op) {
  Torch& torch = x.torch();
  Shape shape = x.shape();
  shape[-1] = Dim{};
  Tensor out = torch.empty(op, shape, x.dtype());
  run_sum(x, out, row_sum(shape.elements(), x.size(-1).size, size_of(x.dtype()), card_of(torch)));
  return out;
}
Tensor over_rows(const Tensor& x, OpKind op) {
  Torch& torch = x.torch();
  Shape shape = x.shape();
  shape[-2] = Dim{};
  Tensor out = torch.empty(op, shape, x.dtype());
  if (x.rank() == 2) {
    run_sum(x, out, column_sum(x.size(0).size, x.size(1).size, size_of(x.dtype()), card_of(torch)));
  } else {
    torch.recorder.op({.kind = OpKind::sum}, {x.id()}, {out.id()});
  }
  return out;
}

Tensor outer(const Tensor& parameter, const Tensor& row, const Tensor& col) {
  Torch& torch = row.torch();
  Tensor estimate = torch.empty(OpKind::mm, parameter.shape(), row.dtype());
  estimate.named("estimate of the second moment");
  torch.need_blas_workspace();
  torch.recorder.op({.kind = OpKind::mul}, {row.id(), col.id()}, {estimate.id()});
  return estimate;
}

constexpr const char* kLabel = "Adafactor: norms and means";

}  // namespace

void OptimizerState::make_adafactor_state() {
  if (!row_.empty()) return;
  for (const Tensor& p : parameters_) {
    Shape rows = p.shape();
    if (p.rank() < 2) {
      row_.push_back(filled_state(p, rows, p.dtype(), kOp, "variance"));
      col_.emplace_back();
      continue;
    }
    Shape cols = p.shape();
    rows[-1] = Dim{};
    cols[-2] = Dim{};
    row_.push_back(filled_state(p, rows, p.dtype(), kOp, "row_var"));
    col_.push_back(filled_state(p, cols, p.dtype(), kOp, "col_var"));
  }
}

void OptimizerState::adafactor() {
  make_adafactor_state();
  // Names of the loop's body, bound again in each round.
  Tensor row_mean, col_mean, grad_squared, var_estimate, update;
  const Frame frame{&row_mean, &col_mean, &grad_squared, &var_estimate, &update};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    const Tensor& grad = p->grad;
    over_all(p, OpKind::vector_norm).named(kLabel);
    if (p.rank() > 1) {
      row_mean = over_last(grad, OpKind::vector_norm).named(kLabel);
      col_mean = over_rows(grad, OpKind::vector_norm).named(kLabel);
      var_estimate = outer(p, row_[i], col_[i]);
      if (p.rank() == 2) {
        over_all(row_[i], OpKind::mean).named(kLabel);
      } else {
        over_rows(row_[i], OpKind::mean).named(kLabel);
      }
    } else {
      grad_squared = temporary_like(grad, OpKind::mul, "gradient, squared");
      var_estimate = temporary_like(row_[i], OpKind::copy, "variance, copied");
    }
    update = var_estimate;
    torch_.recorder.op({.kind = kOp}, {grad.id(), row_[i].id()}, {p.id()}, {update.id()});
    over_all(update, OpKind::vector_norm).named(kLabel);
  }
}

void OptimizerState::adafactor_foreach() {
  make_adafactor_state();
  std::vector<Tensor> var_estimates;
  const auto drop = [](std::vector<Tensor>& list) {
    while (!list.empty()) list.pop_back();
  };
  for (const bool matrices : {parameters_.front().rank() > 1, parameters_.front().rank() <= 1}) {
    std::vector<std::size_t> group;
    for (std::size_t i = 0; i < parameters_.size(); ++i) {
      if ((parameters_[i].rank() > 1) == matrices) group.push_back(i);
    }
    if (group.empty()) continue;
    for (const std::size_t i : group) over_all(parameters_[i], OpKind::vector_norm).named(kLabel);
    std::vector<Tensor> estimates;
    std::vector<Tensor> list;
    if (matrices) {
      for (const std::size_t i : group) list.push_back(over_last(parameters_[i]->grad, OpKind::vector_norm).named(kLabel));
      drop(list);
      for (const std::size_t i : group) list.push_back(over_rows(parameters_[i]->grad, OpKind::vector_norm).named(kLabel));
      drop(list);
      for (const std::size_t i : group) estimates.push_back(outer(parameters_[i], row_[i], col_[i]));
      for (const std::size_t i : group) {
        list.push_back((parameters_[i].rank() == 2 ? over_all(row_[i], OpKind::mean) : over_rows(row_[i], OpKind::mean)).named(kLabel));
      }
      drop(list);
    } else {
      for (const std::size_t i : group) list.push_back(temporary_like(parameters_[i]->grad, OpKind::mul, "gradient, squared"));
      drop(list);
      for (const std::size_t i : group) estimates.push_back(temporary_like(row_[i], OpKind::copy, "variance, copied"));
    }
    // `updates` is another name for this list, bound to the new one only now.
    drop(var_estimates);
    var_estimates = std::move(estimates);
    for (const Tensor& update : var_estimates) over_all(update, OpKind::vector_norm).named(kLabel);
    for (std::size_t k = 0; k < group.size(); ++k) {
      torch_.recorder.op({.kind = kOp}, {parameters_[group[k]]->grad.id()}, {parameters_[group[k]].id()}, {var_estimates[k].id()});
    }
  }
  drop(var_estimates);
}

void OptimizerState::adafactor_transformers() {
  const bool first = row_.empty();
  Tensor grad, p_data_fp32, update;
  const Frame frame{&grad, &p_data_fp32, &update};
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const Tensor& p = parameters_[i];
    const bool matrix = p.rank() > 1;
    grad = p->grad;
    grad = to(grad, DType::float32);
    if (first) {
      Shape rows = p.shape();
      if (matrix) {
        Shape cols;
        for (int k = 0; k < p.rank(); ++k) {
          if (k != p.rank() - 2) cols[cols.rank++] = p.size(k);
        }
        --rows.rank;
        row_.push_back(filled_state(p, rows, DType::float32, kOp, "exp_avg_sq_row"));
        col_.push_back(filled_state(p, cols, DType::float32, kOp, "exp_avg_sq_col"));
      } else {
        row_.push_back(filled_state(p, rows, DType::float32, kOp, "exp_avg_sq"));
        col_.emplace_back();
      }
      rms_.emplace_back();
    }
    p_data_fp32 = p;
    p_data_fp32 = to(p_data_fp32, DType::float32);
    const auto scalar = [&](DType dtype) { return torch_.empty(kOp, {}, dtype).named(kLabel); };
    const auto rms = [&](const Tensor& x) {
      const Tensor norm = over_all(x, OpKind::vector_norm).named(kLabel);
      return scalar(DType::float32);
    };
    rms_[i] = rms(p_data_fp32);
    rms_[i].named("RMS of the parameter", Category::optimizer_state);
    scalar(DType::boolean);
    {
      const Tensor squared = temporary_like(grad, OpKind::pow, "gradient, squared");
      Tensor shifted = temporary_like(grad, OpKind::add_scalar, "gradient, squared");
      update = std::move(shifted);
    }
    if (matrix) {
      over_last(update, OpKind::mean).named(kLabel);
      over_rows(update, OpKind::mean).named(kLabel);
      Tensor approximate;
      {
        Tensor row_factor;
        {
          const Tensor mean = p.rank() == 2 ? over_all(row_[i], OpKind::mean) : over_last(row_[i], OpKind::mean);
          mean.named(kLabel);
          row_factor = temporary_like(row_[i], OpKind::div, "row factor");
        }
        const Tensor col_factor = temporary_like(col_[i], OpKind::rsqrt, "column factor");
        approximate = temporary_like(grad, OpKind::mul, "update");
      }
      update = std::move(approximate);
    } else {
      Tensor next = temporary_like(row_[i], OpKind::rsqrt, "update");
      update = std::move(next);
    }
    {
      const Tensor size = rms(update);
      scalar(DType::float32);
    }
    const Tensor negated = temporary_like(update, OpKind::neg, "update, negated");
    torch_.recorder.op({.kind = kOp}, {grad.id(), row_[i].id()}, {p.id()}, {update.id(), negated.id()});
  }
}

}  // namespace whatfits::torch
