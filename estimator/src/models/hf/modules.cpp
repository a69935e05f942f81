#include "models/hf/modules.h"

#include <algorithm>
#include <cmath>

#include "torch/ops.h"
#include "torch/tensor_parallel.h"

namespace whatfits::hf {

Tensor Linear::base(const Tensor& x) const {
  if (packed) return quantised(x);
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

// Linear4bit.forward. The bias itself is cast to the input's type, a copy of it to that of the product.
Tensor Linear::quantised(const Tensor& input) const {
  if (!input || input.torch().stopped) return {};
  if (bias) bias = torch::to(bias, input.dtype());
  Tensor x = torch::to(input, compute_dtype);
  Tensor cast_bias = bias ? torch::to(bias, compute_dtype) : Tensor();
  const torch::Frame frame{&x, &cast_bias};
  return torch::to(torch::matmul_4bit(x, packed, cast_bias), input.dtype());
}

// lora_B(lora_A(dropout(x))) * scaling
Tensor Linear::update(const Tensor& x) const {
  const Tensor none;
  Tensor update = torch::dropout(x, lora_dropout);
  update = torch::linear(update, lora_a, none);
  update.named("adapter, down");
  update = torch::linear(update, lora_b, none);
  update.named("adapter, up");
  update = torch::mul(update, 2.0);
  update.named("adapter, scaled");
  return update;
}

// frozen + lora_B(lora_A(dropout(x))) * scaling, in the adapter's type; each part goes as soon as it has been used.
Tensor Linear::operator()(const Tensor& input) const {
  if (cut == Cut::columns) return base(torch::replicated(input));
  if (cut == Cut::rows) return torch::all_reduced(base(input));
  if (!lora_a) return base(input);
  Tensor x = input;
  if (packed) {
    // lora/bnb.py of PEFT: the result is copied first, and autocast is left to cast by itself.
    Tensor output;
    Tensor result = base(x);
    const torch::Frame frame{&x, &output};
    if (!result) return {};
    result = torch::clone(result);
    const bool converts = !result.torch().autocast.enabled;
    const DType kind = result.dtype();
    if (converts) x = torch::to(x, lora_a.dtype());
    output = update(x);
    if (converts) output = torch::to(output, kind);
    return torch::add(result, output);
  }
  Tensor frozen = base(x);
  if (!frozen) return {};
  const DType kind = frozen.dtype();
  x = torch::to(x, lora_a.dtype());
  frozen = torch::add(frozen, update(x));
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

namespace {

/// A base to be quantised is loaded in the 16-bit type of its products, under autocast too.
DType loaded_as(const Config& config) {
  const bool quantised = config.lora && config.lora->nf4;
  switch (config.precision) {
    case Precision::amp_bf16:
      return quantised ? DType::bfloat16 : DType::float32;
    case Precision::bf16:
      return DType::bfloat16;
    case Precision::amp_fp16:
      return quantised ? DType::float16 : DType::float32;
    case Precision::fp16:
      return DType::float16;
    case Precision::fp32:
      break;
  }
  return DType::float32;
}

}  // namespace

Builder::Builder(torch::Torch& torch, const Config& config)
    : torch_(torch),
      config_(config),
      ways_(config.parallel ? config.parallel->tensor : 1),
      loaded_as_(loaded_as(config)),
      dtype_(config.lora && config.lora->nf4 && config.lora->prepare ? DType::float32 : loaded_as_) {
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

Tensor Builder::loaded(const std::string& name, const Shape& shape) {
  Tensor p = torch_.parameter(shape, loaded_as_, {.kind = OpKind::randn});
  p.named(name + ", as loaded", Category::parameters);
  return p;
}

Tensor Builder::later(const Shape& shape, DType dtype, const Tensor& now) {
  const Bytes bytes = static_cast<Bytes>(shape.elements()) * size_of(dtype);
  torch::Ref<torch::StorageImpl> storage(new torch::StorageImpl(torch_, torch_.recorder.declare(bytes, OpKind::copy), false));
  const StorageId id = storage->id;
  Tensor p = torch_.tensor(std::move(storage), {.shape = shape, .strides = torch::contiguous_strides(shape), .dtype = dtype});
  torch_.recorder.storage(id).tensor = p.id();
  (now ? casts_ : adapters_).push_back({p, now});
  return p;
}

void Builder::finish() {
  for (std::vector<Late>* list : {&casts_, &adapters_}) {
    for (Late& late : *list) {
      late.tensor->storage->resize_to_full();
      if (late.from) {
        torch_.recorder.op({.kind = OpKind::copy}, {late.from.id()}, {late.tensor.id()});
      } else {
        torch_.recorder.op({.kind = OpKind::randn}, {}, {late.tensor.id()});
      }
      late.from.reset();
    }
    list->clear();
  }
}

Tensor Builder::tensor(const std::string& name, const Shape& shape, DType dtype, bool wants_gradient, bool adapter) {
  Tensor p = quantised() && adapter               ? later(shape, dtype, {})
             : quantised() && dtype != loaded_as_ ? later(shape, dtype, loaded(name, shape))
                                                  : torch_.parameter(shape, dtype, {.kind = OpKind::randn});
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
  return tensor(name, {of_rank(rows), width}, dtype_, wants_gradient_ && !frozen);
}

Tensor Builder::head(const std::string& name, Dim width, Dim rows, const Tensor& embedding) {
  if (config_.model.tie_word_embeddings) return embedding;
  return tensor(name, {of_rank(rows), width}, dtype_, !config_.lora);  // `last:N` trains an untied head as well
}

void Builder::adapt(Linear& linear, const std::string& name, Dim in, Dim out) {
  if (!config_.lora) return;
  const std::string last = name.substr(name.rfind('.') + 1);
  const auto& targets = config_.lora->targets;
  if (std::find(targets.begin(), targets.end(), last) == targets.end()) return;
  const Dim rank{config_.lora->rank};
  const DType dtype = config_.lora->base_dtype ? dtype_ : DType::float32;
  linear.lora_a = tensor(name + ".lora_A.weight", {rank, in}, dtype, true, true);
  linear.lora_b = tensor(name + ".lora_B.weight", {out, rank}, dtype, true, true);
  linear.lora_dropout = config_.lora->dropout;
}

Linear Builder::linear(const std::string& name, Dim in, Dim out, bool bias) { return linear(name, in, out, bias, false); }

Linear Builder::conv1d(const std::string& name, Dim in, Dim out) { return linear(name, in, out, true, true); }

Linear Builder::linear(const std::string& name, Dim in, Dim out, bool bias, bool conv1d) {
  Linear l;
  l.conv1d = conv1d;
  if (ways_ > 1) {
    const std::string last = name.substr(name.rfind('.') + 1);
    l.cut = last == "o_proj" || last == "down_proj" ? Linear::Cut::rows : Linear::Cut::columns;
  }
  const std::string weight = name + ".weight";
  if (quantised()) {
    l.compute_dtype = loaded_as_;
    const Tensor whole = loaded(weight, conv1d ? Shape{in, out} : Shape{out, in});
    const Tensor turned = torch::contiguous(conv1d ? torch::t(whole) : whole);
    l.packed = torch::quantize_4bit(turned, {out, in}, dynamic_code_, weight);
    torch_.recorder.program.parameters += static_cast<std::uint64_t>(in.size * out.size);
  } else {
    l.weight = parameter(weight, conv1d ? Shape{in, out} : Shape{out, in});
  }
  if (bias) l.bias = parameter(name + ".bias", {out});
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
