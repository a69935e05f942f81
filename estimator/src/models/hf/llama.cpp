// Llama and the families that share its code: Mistral (a sliding window in every layer), Qwen2 (biases on query, key and value) and
// Qwen3 (a norm on each query and key head). Source: models/{llama,mistral,qwen2,qwen3}/modeling_*.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Llama final : public CausalLM {
 public:
  Llama(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    const bool qwen2 = m.model_type == "qwen2";
    const bool qwen3 = m.model_type == "qwen3";
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      b.window = m.sliding_window > 0 && (m.sliding.empty() || m.sliding[static_cast<std::size_t>(i)]) ? m.sliding_window : 0;
      build.block(b.index);
      const std::string name = "model.layers." + std::to_string(i);
      const bool bias = m.attention_bias || qwen2;
      b.q_proj = build.linear(name + ".self_attn.q_proj", C, NH * D, bias);
      b.k_proj = build.linear(name + ".self_attn.k_proj", C, KV * D, bias);
      b.v_proj = build.linear(name + ".self_attn.v_proj", C, KV * D, bias);
      b.o_proj = build.linear(name + ".self_attn.o_proj", NH * D, C, m.attention_bias && !qwen2);
      if (qwen3) {
        b.q_norm = build.rms_norm(name + ".self_attn.q_norm", D);
        b.k_norm = build.rms_norm(name + ".self_attn.k_norm", D);
      }
      b.gate_proj = build.linear(name + ".mlp.gate_proj", C, inner, m.mlp_bias);
      b.up_proj = build.linear(name + ".mlp.up_proj", C, inner, m.mlp_bias);
      b.down_proj = build.linear(name + ".mlp.down_proj", inner, C, m.mlp_bias);
      b.input_layernorm = build.rms_norm(name + ".input_layernorm", C);
      b.post_attention_layernorm = build.rms_norm(name + ".post_attention_layernorm", C);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    norm_ = build.rms_norm("model.norm", C);
    rotary_emb_ = rotary("model.rotary_emb");
    lm_head_ = build.head("lm_head.weight", C, V, embed_tokens_);
  }

  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override {
    CausalLMOutput out;
    Tensor hidden = model(input_ids, attention_mask, cache_of(out));
    out.logits = head_of(hidden, lm_head_);
    out.loss = loss_of(out.logits, labels);
    return out;
  }

 private:
  struct Block {
    std::int16_t index = 0;
    std::int64_t window = 0;
    Linear q_proj, k_proj, v_proj, o_proj;
    RmsNorm q_norm, k_norm;
    Linear gate_proj, up_proj, down_proj;
    RmsNorm input_layernorm, post_attention_layernorm;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    const Tensor inputs_embeds = embedded(torch::embedding(embed_tokens_, input_ids));
    const Tensor position_ids = positions();
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    bool full = false;
    bool sliding = false;
    for (const Block& b : blocks_) (b.window > 0 ? sliding : full) = true;
    if (full) shared.mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    if (sliding) shared.sliding_mask = causal_mask(inputs_embeds, attention_mask, position_ids, m.sliding_window);
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
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream after attention");
    residual = hidden;
    hidden = b.post_attention_layernorm(hidden);
    hidden = gated_mlp(b.gate_proj, b.up_proj, b.down_proj, m.activation, hidden);
    hidden.named("MLP output");
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream");
    return hidden;
  }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Shape q_heads{B, T, NH, D};
    const Shape kv_heads{B, T, KV, D};
    Tensor query = torch::view(b.q_proj(x), q_heads);
    if (b.q_norm.weight) query = b.q_norm(query);
    query = torch::transpose(query, 1, 2);
    query.named("query");
    Tensor key = torch::view(b.k_proj(x), kv_heads);
    if (b.k_norm.weight) key = b.k_norm(key);
    key = torch::transpose(key, 1, 2);
    key.named("key");
    Tensor value = torch::transpose(torch::view(b.v_proj(x), kv_heads), 1, 2);
    value.named("value");
    apply_rotary_pos_emb(query, key, shared.cos, shared.sin);
    if (shared.cache != nullptr) shared.cache->update(key, value, b.window);
    AttentionCall call;
    call.groups = m.n_head / m.n_kv_head;
    call.dropout = dropout(m.attn_pdrop);
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
  RmsNorm norm_;
  RotaryEmbedding rotary_emb_;
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_llama(torch::Torch& torch, const Config& config) { return std::make_unique<Llama>(torch, config); }

}  // namespace whatfits::hf
