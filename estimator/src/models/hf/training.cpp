#include "models/hf/training.h"

#include "models/hf/causal_lm.h"
#include "models/training.h"
#include "models/wrap.h"
#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/ops.h"
#include "torch/optim.h"

namespace whatfits::hf {

namespace {

using torch::Torch;

struct Training {
  Training(Torch& torch_, const Config& config_, CausalLM& model_, torch::OptimizerState& optimizer_)
      : torch(torch_), config(config_), model(model_), optimizer(optimizer_) {}

  Torch& torch;
  const Config& config;
  CausalLM& model;
  torch::OptimizerState& optimizer;
  torch::GradScaler scaler{torch};
  const bool amp = uses_autocast(config);
  const bool scaling = config.precision == Precision::amp_fp16;
  const DType amp_dtype = scaling ? DType::float16 : DType::bfloat16;
  const Dim B{config.batch, letters::B};
  const Dim T{config.seq_len, letters::T};
  const Dim V{config.model.vocab_size, letters::V};

  // The script's names.
  Tensor x, attention_mask, logits, loss;
  CausalLMOutput out;

  void phase(Phase phase) const { torch.recorder.phase(phase); }
  void reading(Reading reading) const { torch.recorder.reading(reading); }

  void batch() {
    Tensor ids = torch::randint(torch, {B, T});
    ids.named("token ids", Category::inputs);
    x = std::move(ids);
    if (config.script.attention_mask == Script::AttentionMask::none) return;
    Tensor mask = torch::full(torch, {B, T}, DType::int64, 1);
    mask.named("attention mask", Category::inputs);
    attention_mask = std::move(mask);
  }

  void forward() {
    const torch::AutocastScope autocast(torch, amp, amp_dtype);
    if (torch.wrapper) torch.wrapper->pre_forward();
    if (config.script.loss == Script::Loss::outside) {
      const Tensor none;
      CausalLMOutput output = model.forward(x, none, attention_mask);
      if (torch.wrapper) torch.wrapper->post_forward({&output.logits});
      logits = std::move(output.logits);
      output.cache.clear();
      // F.cross_entropy(logits[:, :-1].reshape(-1, V), x[:, 1:].reshape(-1))
      const Dim rows{B.size * (T.size - 1)};
      Tensor targets = torch::slice(x, 1, Dim{T.size - 1});
      Tensor kept = torch::narrow(torch::narrow(logits, 0, 0, B), 1, 0, Dim{T.size - 1});
      kept = torch::reshape(kept, {rows, V});
      targets = torch::reshape(targets, {rows});
      loss = torch::cross_entropy(kept, targets);
    } else {
      CausalLMOutput output = model.forward(x, x, attention_mask);
      if (torch.wrapper) torch.wrapper->post_forward({&output.loss, &output.logits});
      if (config.script.outputs == Script::Outputs::keep) {
        out.loss = output.loss;
        out.logits = std::move(output.logits);
        out.cache = std::move(output.cache);
      }
      loss = std::move(output.loss);
    }
    if (config.grad_accumulation > 1) {
      loss = torch::div(loss, static_cast<double>(config.grad_accumulation));
      loss.named("loss, divided by the micro-batches");
    }
  }

  void zero_grad() {
    if (config.optimizer == Optimizer::none) return;
    phase(Phase::zero_grad);
    optimizer.zero_grad(config.zero_grad);
  }

  void step() {
    if (config.script.zero_grad_at_begin) zero_grad();
    for (std::int64_t micro = 0; micro < config.grad_accumulation; ++micro) {
      phase(Phase::forward);
      if (!config.script.data_once) batch();
      forward();
      reading(Reading::after_forward);
      phase(Phase::backward);
      torch::backward(scaling ? scaler.scale(loss) : loss);
      if (config.script.outputs == Script::Outputs::loss_detached) loss = torch::detach(loss);
      reading(Reading::after_backward);
    }
    if (scaling && config.optimizer != Optimizer::none && (config.clip_grad_norm || !optimizer.fused())) {
      phase(Phase::optimizer_step);
      scaler.unscale(model.trainable());
    }
    if (config.clip_grad_norm) {
      phase(Phase::clip);
      torch::clip_grad_norm(torch, model.trainable());
    }
    phase(Phase::optimizer_step);
    if (config.optimizer != Optimizer::none) {
      if (scaling) {
        scaler.step(optimizer, model.trainable());
        scaler.update();
      } else {
        optimizer.step();
      }
    }
    reading(Reading::after_optimizer_step);
    if (!config.script.zero_grad_at_begin) zero_grad();
    reading(Reading::after_zero_grad);
  }
};

}  // namespace

Program record_steps(const Config& config, int steps) {
  const auto runs = static_cast<std::size_t>(config.grad_accumulation * steps);
  Recorder recorder(runs * static_cast<std::size_t>(2 * config.model.n_layer + 1));
  recorder.label("");
  recorder.program.peak_of_whole_run = true;
  recorder.program.letter_values = {config.batch,        config.seq_len,          config.model.n_embd,
                                    config.model.n_head, config.model.vocab_size, config.model.n_positions};
  Program program;
  {
    Torch torch(recorder, {config.device.compute_capability, config.device.sm_count});
    if (!config.model.assumed_from.empty()) {
      const std::string note = "the model type " + config.model.assumed_from + " is not known; it is read as Llama's code, as asked";
      torch.note(note.c_str());
    }
    recorder.phase(Phase::warmup);
    if (config.script.warmup_matmul > 0) {
      Tensor w = torch.empty(OpKind::randn, {Dim{config.script.warmup_matmul}, Dim{config.script.warmup_matmul}}, DType::float32);
      w.named("warm-up matrix");
      torch::mm(w, w).named("warm-up product");
    }
    recorder.reading(Reading::after_warmup);
    recorder.phase(Phase::model);
    const std::unique_ptr<torch::Wrapper> wrapper = make_wrapper(torch, config);
    torch.wrapper = wrapper.get();
    const std::unique_ptr<CausalLM> model = make_model(torch, config);
    if (wrapper) wrapper->wrap(model->trainable());
    const std::vector<Tensor>& parameters = wrapper && wrapper->parameters() ? *wrapper->parameters() : model->trainable();
    recorder.reading(Reading::after_model);
    recorder.phase(Phase::optimizer);
    torch::OptimizerState optimizer(torch, config.optimizer, parameters, wrapper ? wrapper->partition() : nullptr);
    if (wrapper && wrapper->second_group()) optimizer.add_group(*wrapper->second_group());
    recorder.reading(Reading::after_optimizer);
    Training training(torch, config, *model, optimizer);
    if (config.script.data_once) training.batch();
    recorder.end_setup();
    for (int step = 0; step < steps; ++step) {
      recorder.reading(Reading::before);
      training.step();
      recorder.reading(Reading::end_of_step);
      if (step == 0) recorder.end_first_step();
      if (step == 1 && steps_recorded(config) == 3) recorder.end_second_step();
    }
    recorder.finish();
    program = std::move(recorder.program);
  }
  return program;
}

}  // namespace whatfits::hf
