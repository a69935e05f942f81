// Gemma and Gemma 2 (norms on both sides of each branch, capped scores and logits, every other layer with a sliding window).
// Source: models/{gemma,gemma2}/modeling_*.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

/// Computed in float32, the weight (1 + weight) included; all of it is kept.
struct Norm {
  Tensor weight;
  Tensor operator()(const Tensor& x) const {
    if (!x) return {};
    Tensor output;
    {
      const Tensor wide = torch::to(x, DType::float32);
      Tensor scale = torch::pow(wide, 2);
      scale = torch::mean_last(scale);
      scale = torch::add(scale, 1e-6);
      scale = torch::rsqrt(scale);
      output = torch::mul(wide, scale);
    }
    {
      Tensor factor = torch::to(weight, DType::float32);
      factor = torch::add(factor, 1.0);
      output = torch::mul(output, factor);
    }
    return torch::to(output, x.dtype()).named("RMS norm output");
  }
};

class Gemma final : public CausalLM {
 public:
  Gemma(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    embed_scale_ = build.buffer("model.embed_tokens.embed_scale", {}, build.dtype());
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      b.window = m.sliding_window > 0 && (m.sliding.empty() || m.sliding[static_cast<std::size_t>(i)]) ? m.sliding_window : 0;
      build.block(b.index);
      const std::string name = "model.layers." + std::to_string(i);
      const bool bias = m.attention_bias;
      b.q_proj = build.linear(name + ".self_attn.q_proj", C, NH * D, bias);
      b.k_proj = build.linear(name + ".self_attn.k_proj", C, KV * D, bias);
      b.v_proj = build.linear(name + ".self_attn.v_proj", C, KV * D, bias);
      b.o_proj = build.linear(name + ".self_attn.o_proj", NH * D, C, bias);
      b.gate_proj = build.linear(name + ".mlp.gate_proj", C, inner, false);
      b.up_proj = build.linear(name + ".mlp.up_proj", C, inner, false);
      b.down_proj = build.linear(name + ".mlp.down_proj", inner, C, false);
      b.input_layernorm.weight = build.parameter(name + ".input_layernorm.weight", {C});
      b.post_attention_layernorm.weight = build.parameter(name + ".post_attention_layernorm.weight", {C});
      if (gemma2_) {
        b.pre_feedforward_layernorm.weight = build.parameter(name + ".pre_feedforward_layernorm.weight", {C});
        b.post_feedforward_layernorm.weight = build.parameter(name + ".post_feedforward_layernorm.weight", {C});
      }
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    norm_.weight = build.parameter("model.norm.weight", {C});
    rotary_emb_ = rotary("model.rotary_emb");
    lm_head_ = build.head("lm_head.weight", C, V, embed_tokens_);
  }

  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override {
    CausalLMOutput out;
    Tensor hidden = model(input_ids, attention_mask, cache_of(out));
    out.logits = head_of(hidden, lm_head_);
    if (m.softcap_logits) {
      out.logits = torch::div(out.logits, 30.0);
      out.logits = torch::tanh(out.logits);
      out.logits = torch::mul(out.logits, 30.0);
      out.logits.named("logits, capped", Category::logits);
    }
    out.loss = loss_of(out.logits, labels);
    return out;
  }

 private:
  struct Block {
    std::int16_t index = 0;
    std::int64_t window = 0;
    Linear q_proj, k_proj, v_proj, o_proj;
    Linear gate_proj, up_proj, down_proj;
    Norm input_layernorm, post_attention_layernorm, pre_feedforward_layernorm, post_feedforward_layernorm;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    Tensor inputs_embeds = torch::embedding(embed_tokens_, input_ids);
    inputs_embeds = embedded(torch::mul(inputs_embeds, torch::to(embed_scale_, embed_tokens_.dtype())));
    const Tensor position_ids = positions();
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    shared.mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    if (gemma2_) shared.sliding_mask = causal_mask(inputs_embeds, attention_mask, position_ids, m.sliding_window);
    Tensor hidden = inputs_embeds;
    rotary_emb_(hidden, position_ids, shared.cos, shared.sin);
    for (const Block& b : blocks_) {
      hidden = layer(hidden, [this, &b, shared](const Tensor& x) { return decoder_layer(b, x, shared); });
    }
    torch.recorder.layer(kNoLayer);
    hidden = norm_(hidden);
    return hidden;
  }

  Tensor decoder_layer(const Block& b, const Tensor& x, const Shared& shared) const {
    torch.recorder.layer(b.index);
    Tensor residual = x;
    Tensor hidden = b.input_layernorm(residual);
    Tensor weights;
    hidden = attention(b, hidden, shared, weights);
    hidden.named("attention output, projected");
    if (gemma2_) hidden = b.post_attention_layernorm(hidden);
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream after attention");
    residual = hidden;
    hidden = gemma2_ ? b.pre_feedforward_layernorm(hidden) : b.post_attention_layernorm(hidden);
    hidden = gated_mlp(b.gate_proj, b.up_proj, b.down_proj, m.activation, hidden);
    hidden.named("MLP output");
    if (gemma2_) hidden = b.post_feedforward_layernorm(hidden);
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream");
    return hidden;
  }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Shape q_heads{B, T, NH, D};
    const Shape kv_heads{B, T, KV, D};
    Tensor query = torch::transpose(torch::view(b.q_proj(x), q_heads), 1, 2);
    query.named("query");
    Tensor key = torch::transpose(torch::view(b.k_proj(x), kv_heads), 1, 2);
    key.named("key");
    Tensor value = torch::transpose(torch::view(b.v_proj(x), kv_heads), 1, 2);
    value.named("value");
    apply_rotary_pos_emb(query, key, shared.cos, shared.sin);
    if (shared.cache != nullptr) shared.cache->update(key, value, b.window);
    AttentionCall call;
    call.groups = m.n_head / m.n_kv_head;
    call.dropout = dropout(m.attn_pdrop);
    if (m.softcap_attention) call.softcap = 50;
    const Tensor& mask = b.window > 0 ? shared.sliding_mask : shared.mask;
    Tensor out = config.attention == Attention::eager ? eager_attention(query, key, value, mask, call, weights)
                                                      : sdpa_attention(config, query, key, value, mask, call);
    out = torch::reshape(out, {B, T, NH * D});
    out.named("attention output, before projection");
    out = b.o_proj(out);
    return out;
  }

  Tensor embed_tokens_;
  std::vector<Block> blocks_;
  const bool gemma2_ = m.model_type == "gemma2";
  Tensor embed_scale_;
  Norm norm_;
  RotaryEmbedding rotary_emb_;
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_gemma(torch::Torch& torch, const Config& config) { return std::make_unique<Gemma>(torch, config); }

}  // namespace whatfits::hf
