// The head and the loss: as Transformers' models have them, and two ways in which all logits are never there at once.
#include "models/hf/causal_lm.h"
#include "torch/checkpoint.h"
#include "torch/ops.h"
#include "torch/tensor_parallel.h"

namespace whatfits::hf {

Tensor CausalLM::head_of(const Tensor& hidden, const Tensor& weight, const Tensor& bias) const {
  if (config.loss == Loss::chunked) {
    head_ = {hidden, weight, bias};
    return {};
  }
  Tensor kept = torch::narrow(hidden, 0, 0, hidden.size(0));
  kept = torch::narrow(kept, 1, 0, hidden.size(1));
  kept = torch::narrow(kept, 2, 0, hidden.size(2));
  if (config.loss == Loss::fused_linear) {
    head_ = {std::move(kept), weight, bias};
    return {};
  }
  if (build.ways() > 1) kept = torch::replicated(kept);
  Tensor logits = torch::linear(kept, weight, bias);
  if (build.ways() > 1) logits = torch::gathered(std::move(logits), build.ways());
  logits.named("logits", Category::logits);
  return logits;
}

Tensor CausalLM::loss_of(const Tensor& logits, const Tensor& labels) const {
  if (!labels) return {};
  switch (config.loss) {
    case Loss::standard:
      return loss_of_logits(logits, labels);
    case Loss::fused_linear: {
      const Head head = std::move(head_);
      const Tensor padded = torch::pad_right(labels, 1);  // stays until the loss is there
      Tensor wanted = torch::contiguous(torch::slice(padded, 1, T));
      wanted.named("labels, shifted", Category::inputs);
      wanted = torch::view(wanted, {B * T});
      return torch::fused_linear_cross_entropy(torch::view(head.input, {B * T, C}), head.weight, wanted);
    }
    case Loss::chunked:
      return chunked_loss(labels);
  }
  return {};
}

// F.pad(labels, (0, 1), value=-100)[..., 1:].contiguous()
Tensor CausalLM::shifted(const Tensor& labels) const {
  const Tensor padded = torch::pad_right(labels, 1);
  Tensor wanted = torch::contiguous(torch::slice(padded, 1, T));
  wanted.named("labels, shifted", Category::inputs);
  return wanted;
}

Tensor CausalLM::loss_of_logits(const Tensor& input_logits, const Tensor& input_labels) const {
  const bool upcast = config.script.loss != Script::Loss::v4_no_upcast;
  Tensor logits = upcast ? torch::to(input_logits, DType::float32) : input_logits;
  if (config.script.loss == Script::Loss::v4 || !upcast) {
    // Transformers 4.48: the last position is dropped by copying. GPT-2 and GPT-BigCode had the same loss in their own type.
    Tensor kept = torch::narrow(logits, 1, 0, Dim{T.size - 1});
    kept = torch::narrow(kept, 2, 0, V);  // [..., :-1, :]: the last slice takes all, and is one
    kept = torch::contiguous(kept);
    kept.named(upcast ? "logits in float32, shifted" : "logits, shifted", Category::logits);
    Tensor wanted = torch::slice(input_labels, 1, Dim{T.size - 1});
    wanted = torch::contiguous(wanted);
    const Dim rows{B.size * (T.size - 1)};
    kept = torch::view(kept, {rows, V});
    wanted = torch::view(wanted, {rows});
    return torch::cross_entropy(kept, wanted);
  }
  if (config.precision != Precision::fp32) logits.named("logits in float32", Category::logits);
  const Tensor labels = torch::pad_right(input_labels, 1);
  Tensor wanted = torch::slice(labels, 1, T);
  wanted = torch::contiguous(wanted);
  wanted.named("labels, shifted", Category::inputs);
  logits = torch::view(logits, {B * T, V});
  wanted = torch::view(wanted, {B * T});
  return torch::cross_entropy(logits, wanted);
}

// def part_of_loss(h, y): return F.cross_entropy(head(h).float(), y, reduction="sum")
// total = 0.0
// for h, y in zip(hidden.view(-1, C).chunk(n), shifted.view(-1).chunk(n)):
//     total = total + checkpoint(part_of_loss, h, y, use_reentrant=False)
// loss = total / (B * (T - 1))
Tensor CausalLM::chunked_loss(const Tensor& labels) const {
  const Head head = std::move(head_);
  const Tensor wanted = torch::view(shifted(labels), {B * T});
  const Tensor hidden = torch::view(head.input, {B * T, C});
  const std::vector<Tensor> hidden_parts = torch::chunk(hidden, config.loss_chunks);
  const std::vector<Tensor> wanted_parts = torch::chunk(wanted, config.loss_chunks);
  Tensor total;
  for (std::size_t i = 0; i < hidden_parts.size(); ++i) {
    const auto part_of_loss = [weight = head.weight, bias = head.bias, y = wanted_parts[i]](const Tensor& h) {
      Tensor logits = torch::linear(h, weight, bias);
      logits.named("logits of a chunk of tokens", Category::logits);
      const Tensor in_float32 = torch::to(logits, DType::float32);
      if (logits && logits.dtype() != DType::float32) in_float32.named("logits of a chunk of tokens in float32", Category::logits);
      logits.reset();
      return torch::cross_entropy(in_float32, y);
    };
    const Tensor part = torch::checkpoint(hidden_parts[i], part_of_loss);
    part.named("loss of a chunk of tokens");
    total = total ? torch::add(total, part) : torch::add(part, 0.0);
  }
  Tensor loss = torch::div(total, static_cast<double>(B.size * (T.size - 1)));
  loss.named("loss");
  return loss;
}

}  // namespace whatfits::hf
