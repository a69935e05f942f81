// Gemma and Gemma 2 (norms on both sides of each branch, capped scores and logits, every other layer with a sliding window).
// Source: models/{gemma,gemma2}/modeling_*.py of Transformers 5.12.
#include "models/hf/families.h"
#include "models/hf/llama_like.h"
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

class Gemma final : public LlamaLike {
 public:
  Gemma(torch::Torch& torch_, const Config& config_) : LlamaLike(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    embed_scale_ = build.buffer("model.embed_tokens.embed_scale", {}, build.dtype());
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      build.block(static_cast<std::int16_t>(i));
      const std::string name = "model.layers." + std::to_string(i);
      Block b;
      b.self_attn = make_attention(name + ".self_attn", i, m.attention_bias, m.attention_bias);
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

 private:
  struct Block {
    LlamaAttention self_attn;
    Linear gate_proj, up_proj, down_proj;
    Norm input_layernorm, post_attention_layernorm, pre_feedforward_layernorm, post_feedforward_layernorm;
  };

  Tensor embed(const Tensor& input_ids) const override {
    const Tensor inputs_embeds = torch::embedding(embed_tokens_, input_ids);
    return embedded(torch::mul(inputs_embeds, torch::to(embed_scale_, embed_tokens_.dtype())));
  }

  /// Gemma 2 makes both, whatever the layers are.
  void make_masks(const Tensor& inputs_embeds, const Tensor& attention_mask, Shared& shared) const override {
    shared.mask = causal_mask(inputs_embeds, attention_mask, shared.position_ids, 0);
    if (gemma2_) shared.sliding_mask = causal_mask(inputs_embeds, attention_mask, shared.position_ids, m.sliding_window);
  }

  Tensor decoder_layer(std::int64_t i, const Tensor& x, const Shared& shared) const override {
    const Block& b = blocks_[static_cast<std::size_t>(i)];
    AttentionCall call = attention_call();
    if (m.softcap_attention) call.softcap = 50;
    Tensor residual = x;
    Tensor hidden = b.input_layernorm(residual);
    Tensor weights;
    hidden = attention(b.self_attn, hidden, shared, call, weights);
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

  Tensor final_norm(const Tensor& hidden) const override { return norm_(hidden); }

  Tensor logits_of(const Tensor& hidden) const override {
    Tensor logits = head_of(hidden, lm_head_);
    if (!m.softcap_logits) return logits;
    logits = torch::div(logits, 30.0);
    logits = torch::tanh(logits);
    logits = torch::mul(logits, 30.0);
    return logits.named("logits, capped", Category::logits);
  }

  const bool gemma2_ = m.model_type == "gemma2";
  Tensor embed_scale_;
  std::vector<Block> blocks_;
  Norm norm_;
};

}  // namespace

std::unique_ptr<CausalLM> make_gemma(torch::Torch& torch, const Config& config) { return std::make_unique<Gemma>(torch, config); }

}  // namespace whatfits::hf
