#include "models/hf/modules.h"

#include <algorithm>
#include <cmath>

#include "torch/ops.h"

namespace whatfits::hf {

Tensor Linear::base(const Tensor& x) const {
  if (falcon) {
    const Tensor product = torch::matmul(x, torch::t(weight));
    return bias ? torch::add(product, bias) : product;
  }
  if (!conv1d) return torch::linear(x, weight, bias);
  if (!x) return {};
  Dim rows;
  for (int i = 0; i + 1 < x.rank(); ++i) rows = rows * x.size(i);
  Shape out = x.shape();
  out[-1] = weight.size(1);
  Tensor flat = torch::view(x, {rows, x.size(-1)});
  flat = torch::addmm(bias, flat, weight);
  return torch::view(flat, out);
}

// frozen + lora_B(lora_A(dropout(x))) * scaling, in the adapter's type; each part goes as soon as it has been used.
Tensor Linear::operator()(const Tensor& input) const {
  if (!lora_a) return base(input);
  Tensor x = input;
  Tensor frozen = base(x);
  if (!frozen) return {};
  const DType kind = frozen.dtype();
  x = torch::to(x, lora_a.dtype());
  {
    Tensor update = torch::dropout(x, lora_dropout);
    const Tensor none;
    update = torch::linear(update, lora_a, none);
    update.named("adapter, down");
    update = torch::linear(update, lora_b, none);
    update.named("adapter, up");
    update = torch::mul(update, 2.0);
    update.named("adapter, scaled");
    frozen = torch::add(frozen, update);
  }
  return torch::to(frozen, kind);
}

Tensor LayerNorm::operator()(const Tensor& x) const { return torch::layer_norm(x, weight, bias).named("layer norm output"); }

Tensor RmsNorm::operator()(const Tensor& x) const {
  if (!x) return {};
  const DType kind = x.dtype();
  Tensor hidden = torch::to(x, DType::float32);
  Tensor variance = torch::pow(hidden, 2);
  variance = torch::mean_last(variance);
  {
    Tensor inverse = torch::add(variance, 1e-6);
    inverse = torch::rsqrt(inverse);
    hidden = torch::mul(hidden, inverse);
  }
  const Tensor cast = torch::to(hidden, kind);
  return torch::mul(weight, cast).named("RMS norm output");
}

Builder::Builder(torch::Torch& torch, const Config& config)
    : torch_(torch),
      config_(config),
      dtype_(config.precision == Precision::bf16   ? DType::bfloat16
             : config.precision == Precision::fp16 ? DType::float16
                                                   : DType::float32) {
  block(kNoLayer);
}

void Builder::block(std::int16_t index) {
  torch_.recorder.layer(index);
  switch (config_.trainable.what) {
    case Trainable::What::all:
    case Trainable::What::all_but_embeddings:
      wants_gradient_ = true;
      break;
    case Trainable::What::last:
      wants_gradient_ = index != kNoLayer && index >= config_.model.n_layer - config_.trainable.blocks;
      break;
  }
  if (config_.lora) wants_gradient_ = false;
}

Tensor Builder::tensor(const std::string& name, const Shape& shape, DType dtype, bool wants_gradient) {
  Tensor p = torch_.parameter(shape, dtype, {.kind = OpKind::randn});
  p.named(name, Category::parameters);
  p->leaf_requires_grad = wants_gradient;
  torch_.recorder.program.parameters += static_cast<std::uint64_t>(shape.elements());  // adapters are the model's too
  if (wants_gradient) trainable_.push_back(p);
  return p;
}

Tensor Builder::parameter(const std::string& name, const Shape& shape) { return tensor(name, shape, dtype_, wants_gradient_); }

Tensor Builder::buffer(const std::string& name, const Shape& shape, DType dtype) {
  Tensor b = torch_.empty(OpKind::copy, shape, dtype);
  b.named(name, Category::buffers);
  torch_.recorder.op({.kind = OpKind::fill}, {}, {b.id()});
  return b;
}

Tensor Builder::embedding(const std::string& name, Dim rows, Dim width) {
  const bool frozen = config_.trainable.what == Trainable::What::all_but_embeddings;
  return tensor(name, {rows, width}, dtype_, wants_gradient_ && !frozen);
}

Tensor Builder::head(const std::string& name, Dim width, Dim rows, const Tensor& embedding) {
  if (config_.model.tie_word_embeddings) return embedding;
  return tensor(name, {rows, width}, dtype_, !config_.lora);  // `last:N` trains an untied head as well
}

void Builder::adapt(Linear& linear, const std::string& name, Dim in, Dim out) {
  if (!config_.lora) return;
  const std::string last = name.substr(name.rfind('.') + 1);
  const auto& targets = config_.lora->targets;
  if (std::find(targets.begin(), targets.end(), last) == targets.end()) return;
  const Dim rank{config_.lora->rank};
  const DType dtype = config_.lora->base_dtype ? dtype_ : DType::float32;
  linear.lora_a = tensor(name + ".lora_A.weight", {rank, in}, dtype, true);
  linear.lora_b = tensor(name + ".lora_B.weight", {out, rank}, dtype, true);
  linear.lora_dropout = config_.lora->dropout;
}

Linear Builder::linear(const std::string& name, Dim in, Dim out, bool bias) {
  Linear l;
  l.weight = parameter(name + ".weight", {out, in});
  if (bias) l.bias = parameter(name + ".bias", {out});
  adapt(l, name, in, out);
  return l;
}

Linear Builder::conv1d(const std::string& name, Dim in, Dim out) {
  Linear l;
  l.conv1d = true;
  l.weight = parameter(name + ".weight", {in, out});
  l.bias = parameter(name + ".bias", {out});
  adapt(l, name, in, out);
  return l;
}

LayerNorm Builder::layer_norm(const std::string& name, Dim width, bool bias) {
  LayerNorm n;
  n.weight = parameter(name + ".weight", {width});
  if (bias) n.bias = parameter(name + ".bias", {width});
  return n;
}

RmsNorm Builder::rms_norm(const std::string& name, Dim width) { return {parameter(name + ".weight", {width})}; }

namespace {

/// 0.5 * x * (1.0 + tanh(sqrt(2 / pi) * (x + 0.044715 * pow(x, 3.0)))), eight operators as Transformers writes it.
Tensor gelu_new(const Tensor& x) {
  Tensor half = torch::mul(x, 0.5);
  Tensor inner = torch::pow(x, 3.0);
  inner = torch::mul(inner, 0.044715);
  inner = torch::add(x, inner);
  inner = torch::mul(inner, 0.7978845608028654);
  inner = torch::tanh(inner);
  inner = torch::add(inner, 1.0);
  return torch::mul(half, inner);
}

}  // namespace

Tensor activate(Activation activation, const Tensor& x) {
  switch (activation) {
    case Activation::gelu_new:
      return gelu_new(x);
    case Activation::relu:
      return torch::relu(x);
    case Activation::silu:
      return torch::silu(x);
    case Activation::gelu:
    case Activation::gelu_pytorch_tanh:
      break;
  }
  return torch::gelu(x);
}

}  // namespace whatfits::hf
