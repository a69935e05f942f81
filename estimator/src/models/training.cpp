#include "models/training.h"

#include <memory>
#include <vector>

#include "models/gpt2_from_scratch.h"
#include "models/hf/training.h"
#include "models/wrap.h"
#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/ops.h"
#include "torch/optim.h"

namespace whatfits {

using torch::Tensor;
using torch::Torch;

namespace {

/// w = torch.randn(n, n, device="cuda"); w @ w; del w
void warmup(Torch& torch, std::int64_t n) {
  if (n == 0) return;
  Tensor w = torch.empty(OpKind::randn, {Dim{n}, Dim{n}}, DType::float32);
  w.named("warm-up matrix");
  torch.recorder.op({.kind = OpKind::randn, .scalar = 1}, {}, {w.id()});
  torch::mm(w, w).named("warm-up product");
}

struct Training {
  Torch& torch;
  const Config& config;
  Gpt2FromScratch& model;
  torch::OptimizerState& optimizer;
  torch::GradScaler scaler{torch};
  const bool amp = uses_autocast(config);
  const bool scaling = config.precision == Precision::amp_fp16;
  const DType amp_dtype = scaling ? DType::float16 : DType::bfloat16;

  void phase(Phase phase) const { torch.recorder.phase(phase); }
  void reading(Reading reading) const { torch.recorder.reading(reading); }

  /// One optimizer step as a function: its names go when it returns.
  void step() {
    Tensor x, logits, loss;
    const torch::Frame frame{&x, &logits, &loss};
    for (std::int64_t micro = 0; micro < config.grad_accumulation; ++micro) {
      phase(Phase::forward);
      x = torch::randint(torch, {Dim{config.batch, letters::B}, Dim{config.seq_len, letters::T}});
      x.named("token ids", Category::inputs);
      {
        const torch::AutocastScope autocast(torch, amp, amp_dtype);
        if (torch.wrapper) torch.wrapper->pre_forward();
        Gpt2FromScratch::Output out = model.forward(x, x);
        if (torch.wrapper) torch.wrapper->post_forward({&out.logits, &out.loss});
        logits = std::move(out.logits);
        loss = std::move(out.loss);
      }
      if (config.grad_accumulation > 1) {
        loss = torch::div(loss, static_cast<double>(config.grad_accumulation));
        loss.named("loss, divided by the micro-batches");
      }
      reading(Reading::after_forward);
      phase(Phase::backward);
      torch::backward(scaling ? scaler.scale(loss) : loss);
      reading(Reading::after_backward);
    }
    if (scaling) {
      phase(Phase::optimizer_step);
      scaler.unscale(model.parameters());
    }
    if (config.clip_grad_norm) {
      phase(Phase::clip);
      torch::clip_grad_norm(torch, model.parameters());
    }
    phase(Phase::optimizer_step);
    if (scaling) {
      scaler.step(optimizer, model.parameters());
      scaler.update();
    } else {
      optimizer.step();
    }
    reading(Reading::after_optimizer_step);
    phase(Phase::zero_grad);
    optimizer.zero_grad(config.zero_grad);
    reading(Reading::after_zero_grad);
  }
};

}  // namespace

int steps_recorded(const Config& config) {
  // DDP makes its buckets anew in the second forward, which with several micro-batches is in step 1.
  const bool rebuilds =
      config.parallel && !config.parallel->fully_sharded() && config.parallel->tensor == 1 && config.grad_accumulation == 1;
  return rebuilds ? 3 : 2;
}

Program record(const Config& config) { return record_steps(config, steps_recorded(config)); }

Program record_steps(const Config& config, int steps) {
  if (config.model.model_type != "gpt2-from-scratch") return hf::record_steps(of_one_rank(config), steps);
  const auto runs = static_cast<std::size_t>(config.grad_accumulation * steps);
  Recorder recorder(runs * static_cast<std::size_t>(config.model.n_layer + 1));
  recorder.label("");
  recorder.program.letter_values = {config.batch,        config.seq_len,          config.model.n_embd,
                                    config.model.n_head, config.model.vocab_size, config.model.n_positions};
  Program program;
  {
    Torch torch(recorder, {config.device.compute_capability, config.device.sm_count});
    recorder.phase(Phase::warmup);
    warmup(torch, config.script.warmup_matmul);
    recorder.reading(Reading::after_warmup);
    recorder.phase(Phase::model);
    const std::unique_ptr<torch::Wrapper> wrapper = make_wrapper(torch, config);
    torch.wrapper = wrapper.get();
    Gpt2FromScratch model(torch, config);
    if (wrapper) wrapper->wrap(model.parameters());
    const std::vector<Tensor>& parameters = wrapper && wrapper->parameters() ? *wrapper->parameters() : model.parameters();
    recorder.reading(Reading::after_model);
    recorder.phase(Phase::optimizer);
    torch::OptimizerState optimizer(torch, config.optimizer, parameters, wrapper ? wrapper->partition() : nullptr);
    recorder.reading(Reading::after_optimizer);
    recorder.end_setup();

    Training training{torch, config, model, optimizer};
    for (int step = 0; step < steps; ++step) {
      recorder.reading(Reading::before);
      training.step();
      recorder.reading(Reading::end_of_step);
      if (step == 0) recorder.end_first_step();
      if (step == 1 && steps_recorded(config) == 3) recorder.end_second_step();
    }
    recorder.finish();
    // What still lives dies with these names; that is no part of the run.
    program = std::move(recorder.program);
  }
  return program;
}

}  // namespace whatfits
