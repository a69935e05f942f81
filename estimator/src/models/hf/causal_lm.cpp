#include "models/hf/causal_lm.h"

#include "models/hf/masks.h"
#include "torch/iterator.h"
#include "torch/ops.h"
#include "torch/wrapper.h"

namespace whatfits::hf {

DynamicCache& DynamicCache::operator=(DynamicCache&& other) noexcept {
  clear();
  held_ = std::move(other.held_);
  return *this;
}

// First to last, whatever a standard library does with a vector.
void DynamicCache::clear() {
  for (Tensor& t : held_) t.reset();
  held_.clear();
}

void DynamicCache::update(Tensor& keys, Tensor& values, std::int64_t window) {
  if (!keys || !values) {
    keys.reset();
    values.reset();
    return;
  }
  torch::Torch& torch = keys.torch();
  if (window > 0) {
    held_.push_back(torch::full(torch, {}, DType::int64, 0));
    held_.back().named("width of the sliding window", Category::buffers);
  }
  // torch.cat([what was there, new]): what was there is empty, and both halves of it have the keys' type.
  Tensor k = torch::cat({&keys}, -2);
  k.named("cached keys");
  Tensor v = torch::cat({&values}, -2, torch::promoted(values, keys));
  v.named("cached values");
  if (window > 0) {
    const auto kept = [window](const Tensor& x) {
      Tensor part = torch::narrow(x, 0, 0, x.size(0));
      part = torch::narrow(part, 1, 0, x.size(1));
      const std::int64_t tokens = x.size(2).size;
      const std::int64_t start = window - 1 < tokens ? tokens - (window - 1) : 0;
      part = torch::narrow(part, 2, start, start == 0 ? x.size(2) : Dim{tokens - start});
      return torch::narrow(part, 3, 0, x.size(3));
    };
    held_.push_back(kept(k));
    held_.push_back(kept(v));
  } else {
    held_.push_back(k);
    held_.push_back(v);
  }
  keys = std::move(k);
  values = std::move(v);
}

namespace {

Dim head_dim(const Config& config) {
  const ModelConfig& m = config.model;
  if (m.head_dim * m.n_head == m.n_embd) return Dim{m.n_embd, letters::C} / Dim{m.n_head, letters::NH};
  return Dim{m.head_dim};
}

}  // namespace

CausalLM::CausalLM(torch::Torch& torch_, const Config& config_)
    : torch(torch_),
      config(config_),
      m(config_.model),
      B{config.batch, letters::B},
      T{config.seq_len, letters::T},
      C{m.n_embd, letters::C},
      NH{m.n_head, letters::NH},
      V{m.vocab_size, letters::V},
      P{m.n_positions, letters::P},
      KV(m.n_kv_head == m.n_head ? NH : Dim{m.n_kv_head}),
      D(head_dim(config)),
      inner(m.n_inner % m.n_embd == 0 ? (m.n_inner / m.n_embd) * C : Dim{m.n_inner}),
      build(torch, config) {}

Tensor CausalLM::positions() const {
  Tensor ids = torch::arange(torch, T);
  ids = torch::add(ids, 0.0);
  ids.named("positions");
  return torch::unsqueeze(ids, 0);
}

Tensor CausalLM::causal_mask(const Tensor& inputs_embeds, const Tensor& attention_mask, const Tensor& position_ids,
                             std::int64_t window) const {
  MaskRequest request;
  request.eager = config.attention == Attention::eager;
  request.flash = config.attention == Attention::flash_attention_2;
  request.padded = config.script.attention_mask == Script::AttentionMask::padded;
  request.has_cache = use_cache();
  request.window = window;
  request.dtype = inputs_embeds.dtype();
  return make_causal_mask(torch, request, B, T, attention_mask, position_ids);
}

Tensor CausalLM::layer(const Tensor& x, std::function<Tensor(const Tensor&)> forward) {
  if (torch.wrapper) {
    const std::int16_t block = next_layer_;
    next_layer_ = static_cast<std::int16_t>((next_layer_ + 1) % m.n_layer);
    forward = [this, block, inner_forward = std::move(forward)](const Tensor& input) {
      return torch::call_block(torch, block, input, inner_forward);
    };
  }
  switch (config.checkpointing) {
    case Checkpointing::full:
    case Checkpointing::selective:
      return torch::checkpoint(x, std::move(forward), config.checkpointing == Checkpointing::selective);
    case Checkpointing::full_reentrant:
      return torch::checkpoint_reentrant(x, std::move(forward));
    case Checkpointing::none:
      break;
  }
  return forward(x);
}

Tensor CausalLM::layer(const Tensor& x, const Tensor& positional, Tensor& second, torch::BlockOfTwo forward) {
  if (config.checkpointing == Checkpointing::full_reentrant) return torch::checkpoint_reentrant(x, positional, second, std::move(forward));
  return layer(x, [this, forward = std::move(forward), positional, kept = &second](const Tensor& input) {
    Tensor more;
    Tensor out = forward(input, positional, more);
    if (torch.recomputing == nullptr) *kept = std::move(more);  // a checkpoint that runs the layer again throws both away
    return out;
  });
}

AttentionCall CausalLM::attention_call() const {
  AttentionCall call;
  call.groups = m.n_head / m.n_kv_head;
  call.dropout = dropout(m.attn_pdrop);
  return call;
}

Tensor CausalLM::attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const AttentionCall& call,
                        Tensor& weights) const {
  Tensor out =
      config.attention == Attention::eager ? eager_attention(q, k, v, mask, call, weights) : sdpa_attention(config, q, k, v, mask, call);
  out = torch::reshape(out, {B, T, NH * D});
  out.named("attention output, before projection");
  return out;
}

Tensor CausalLM::embedded(Tensor inputs_embeds) const {
  inputs_embeds.named("token embeddings");
  if (config.checkpointing != Checkpointing::none && inputs_embeds && !inputs_embeds.requires_grad())
    inputs_embeds->leaf_requires_grad = true;
  return inputs_embeds;
}

RotaryEmbedding CausalLM::rotary(const std::string& name) {
  RotaryEmbedding r;
  const Dim half{m.rotary_dim / 2};
  r.inv_freq = build.buffer(name + ".inv_freq", {half}, DType::float32);
  r.original_inv_freq = build.buffer(name + ".original_inv_freq", {half}, DType::float32);
  return r;
}

void RotaryEmbedding::operator()(const Tensor& x, const Tensor& position_ids, Tensor& cos, Tensor& sin) const {
  make(x.torch(), x.dtype(), position_ids, cos, sin);
}

void RotaryEmbedding::in_float32(const Tensor& x, const Tensor& position_ids, Tensor& cos, Tensor& sin) const {
  make(x.torch(), DType::float32, position_ids, cos, sin);
}

void RotaryEmbedding::make(torch::Torch& torch, DType dtype, const Tensor& position_ids, Tensor& cos, Tensor& sin) const {
  const torch::With no_grad(torch.grad_enabled, false);
  const torch::With no_autocast(torch.autocast.enabled, false);
  const Tensor frequencies = torch::unsqueeze(torch::unsqueeze(inv_freq, 0), 2);
  const Tensor steps = torch::to(torch::unsqueeze(position_ids, 1), DType::float32);
  const Tensor angles = torch::transpose(torch::matmul(frequencies, steps), 1, 2);
  const Tensor all = torch::cat({&angles, &angles}, -1);
  const auto scaled = [&](Tensor values) {
    values = torch::mul(values, 1.0);
    return values;
  };
  const Tensor cosine = scaled(torch::cos(all));
  const Tensor sine = scaled(torch::sin(all));
  cos = torch::to(cosine, dtype);
  cos.named("rotary cosines");
  sin = torch::to(sine, dtype);
  sin.named("rotary sines");
}

namespace {

Tensor rotate_half(const Tensor& x) {
  const Dim half{x.size(-1).size / 2};
  const Tensor first = torch::narrow(x, -1, 0, half);
  const Tensor second = torch::narrow(x, -1, half.size, Dim{x.size(-1).size - half.size});
  const Tensor negated = torch::neg(second);
  Tensor rotated = torch::cat({&negated, &first}, -1);
  return rotated;
}

}  // namespace

Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin) {
  if (!x) return {};
  const Tensor straight = torch::mul(x, cos);
  Tensor turned = rotate_half(x);
  turned = torch::mul(turned, sin);
  return torch::add(straight, turned);
}

void apply_rotary_pos_emb(Tensor& q, Tensor& k, const Tensor& cos, const Tensor& sin) {
  const Tensor c = torch::unsqueeze(cos, 1);
  const Tensor s = torch::unsqueeze(sin, 1);
  Tensor q_embed = rotated(q, c, s);
  Tensor k_embed = rotated(k, c, s);
  q = std::move(q_embed);
  k = std::move(k_embed);
  q.named("query, rotated");
  k.named("key, rotated");
}

Tensor gated_mlp(const Linear& gate, const Linear& up, const Linear& down, Activation activation, const Tensor& x) {
  Tensor hidden = gate(x);
  hidden.named("MLP gate");
  hidden = activate(activation, hidden);
  hidden.named("MLP gate, activated");
  {
    const Tensor wide = up(x);
    wide.named("MLP up projection");
    hidden = torch::mul(hidden, wide);
    hidden.named("MLP hidden layer");
  }
  return down(hidden);
}

Tensor repeat_kv(const Tensor& x, std::int64_t groups) {
  if (groups == 1 || !x) return x;
  const Dim b = x.size(0);
  const Dim kv = x.size(1);
  const Dim t = x.size(2);
  const Dim d = x.size(3);
  Tensor y = torch::narrow(x, 0, 0, b);
  y = torch::narrow(y, 1, 0, kv);
  y = torch::unsqueeze(y, 2);
  y = torch::narrow(y, 3, 0, t);
  y = torch::narrow(y, 4, 0, d);
  y = torch::expand(y, {b, kv, Dim{groups}, t, d});
  y = torch::reshape(y, {b, groups * kv, t, d});
  y.named("key or value heads, repeated");
  return y;
}

Tensor eager_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const AttentionCall& call, Tensor& weights) {
  if (!q) return {};
  const Tensor keys = repeat_kv(k, call.groups);
  const Tensor values = repeat_kv(v, call.groups);
  weights = torch::matmul(q, torch::transpose(keys, 2, 3));
  weights = torch::mul(weights, call.scaling);
  weights.named("attention scores");
  if (call.softcap > 0) {
    weights = torch::div(weights, call.softcap);
    weights = torch::tanh(weights);
    weights = torch::mul(weights, call.softcap);
    weights.named("attention scores, capped");
  }
  if (mask) weights = torch::add(weights, mask).named("attention scores, masked");
  {
    Tensor probabilities = torch::softmax(weights, DType::float32);
    probabilities.named("attention probabilities");
    probabilities = torch::to(probabilities, q.dtype());
    weights = std::move(probabilities);  // the scores go only now
  }
  weights = torch::dropout(weights, call.dropout);
  Tensor out = torch::matmul(weights, values);
  out.named("attention output, by head");
  out = torch::contiguous(torch::transpose(out, 1, 2));
  return out;
}

namespace {

/// _is_packed_sequence: whether positions start anew within the one sequence of a batch. What comes of it lives until attention is done.
Tensor look_for_new_starts(torch::Torch& torch, Dim batch, Dim tokens) {
  constexpr const char* kLabel = "search for packed sequences";
  Tensor increasing;
  {
    const Tensor range = small(torch, OpKind::arange, {tokens}, DType::int64, kLabel);
    const Tensor least = small(torch, OpKind::sum, {}, DType::int64, kLabel);
    increasing = small(torch, OpKind::add, {tokens}, DType::int64, kLabel);
  }
  if (batch.size != 1) return {};
  Tensor step = small(torch, OpKind::add, {Dim{}, tokens}, DType::int64, kLabel);
  step = small(torch, OpKind::add, {Dim{}, tokens}, DType::int64, kLabel);
  step = small(torch, OpKind::sum, {}, DType::int64, kLabel);
  return small(torch, OpKind::compare, {}, DType::boolean, kLabel);
}

/// flash_attention_forward: query, key and value as they are, heads inside; no mask, no repeated heads.
Tensor flash_attention(const Config& config, const Tensor& q, const Tensor& k, const Tensor& v, const AttentionCall& call) {
  if (!q || !k || !v) return {};
  torch::Torch& torch = q.torch();
  const auto cast = [&](const Tensor& x) {
    if (q.dtype() != DType::float32) return x;
    const bool half = config.precision == Precision::fp16 || config.precision == Precision::amp_fp16;
    return torch::to(x, half ? DType::float16 : DType::bfloat16);
  };
  const Tensor query = cast(q);
  const Tensor key = cast(k);
  const Tensor value = cast(v);
  const bool positions = config.model.model_type != "gpt_bigcode";  // its layers are called without
  const Tensor packed = positions && !torch.stopped ? look_for_new_starts(torch, q.size(0), q.size(2)) : Tensor();
  Tensor out = torch::flash_attention_package(query, key, value, call.dropout);
  out.named("attention output, by head");
  return torch::transpose(out, 1, 2);
}

}  // namespace

Tensor sdpa_attention(const Config& config, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                      const AttentionCall& call) {
  if (config.attention == Attention::flash_attention_2) return flash_attention(config, q, k, v, call);
  Tensor key = k;
  Tensor value = v;
  if (mask) {
    key = repeat_kv(key, call.groups);
    value = repeat_kv(value, call.groups);
  }
  torch::SdpaCall sdpa;
  constexpr torch::SdpaBackend backend[] = {torch::SdpaBackend::automatic, torch::SdpaBackend::automatic, torch::SdpaBackend::math,
                                            torch::SdpaBackend::efficient, torch::SdpaBackend::flash};
  sdpa.backend = backend[static_cast<int>(config.attention)];
  sdpa.dropout = call.dropout;
  sdpa.causal = !mask && q && q.size(2).size > 1;
  sdpa.grouped = !mask && call.grouped_module;
  Tensor out = torch::scaled_dot_product_attention(q, key, value, mask, sdpa);
  out.named("attention output, by head");
  out = torch::contiguous(torch::transpose(out, 1, 2));
  return out;
}

}  // namespace whatfits::hf
