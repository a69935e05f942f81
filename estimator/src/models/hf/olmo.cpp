// OLMo: norms without parameters, rotation in float32. Source: models/olmo/modeling_olmo.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

/// A layer norm in float32, without weight and bias.
Tensor norm(const Tensor& x) {
  if (!x) return {};
  const Tensor none;
  Tensor out = torch::to(x, DType::float32);
  out = torch::layer_norm(out, none, none);
  return torch::to(out, x.dtype()).named("layer norm output");
}

/// apply_rotary_pos_emb: in float32, and back to the type that came in.
void rotate(Tensor& q, Tensor& k, const Tensor& cos, const Tensor& sin) {
  if (!q || !k) return;
  const DType kind = q.dtype();
  apply_rotary_pos_emb(q, k, cos, sin);
  Tensor q_back = torch::to(q, kind);
  Tensor k_back = torch::to(k, kind);
  q = std::move(q_back);
  k = std::move(k_back);
}

class Olmo final : public CausalLM {
 public:
  Olmo(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
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
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
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
    Linear q_proj, k_proj, v_proj, o_proj;
    Linear gate_proj, up_proj, down_proj;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    const Tensor inputs_embeds = embedded(torch::embedding(embed_tokens_, input_ids));
    const Tensor position_ids = positions();
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    shared.mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    Tensor hidden = inputs_embeds;
    rotary_emb_.in_float32(hidden, position_ids, shared.cos, shared.sin);
    for (const Block& b : blocks_) {
      hidden = layer(hidden, [this, &b, shared](const Tensor& x) { return decoder_layer(b, x, shared); });
    }
    torch.recorder.layer(kNoLayer);
    hidden = norm(hidden);
    return hidden;
  }

  Tensor decoder_layer(const Block& b, const Tensor& x, const Shared& shared) const {
    torch.recorder.layer(b.index);
    Tensor residual = x;
    Tensor hidden = norm(residual);
    Tensor weights;
    hidden = attention(b, hidden, shared, weights);
    hidden.named("attention output, projected");
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream after attention");
    residual = hidden;
    hidden = norm(hidden);
    hidden = gated_mlp(b.gate_proj, b.up_proj, b.down_proj, m.activation, hidden);
    hidden.named("MLP output");
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream");
    return hidden;
  }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Shape q_heads{B, T, NH, D};
    const Shape kv_heads{B, T, KV, D};
    Tensor query = b.q_proj(x);
    query.named("query");
    Tensor key = b.k_proj(x);
    key.named("key");
    Tensor value = b.v_proj(x);
    value.named("value");
    query = torch::transpose(torch::view(query, q_heads), 1, 2);
    key = torch::transpose(torch::view(key, kv_heads), 1, 2);
    value = torch::transpose(torch::view(value, kv_heads), 1, 2);
    rotate(query, key, shared.cos, shared.sin);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    AttentionCall call;
    call.groups = m.n_head / m.n_kv_head;
    call.dropout = dropout(m.attn_pdrop);
    Tensor out = config.attention == Attention::eager ? eager_attention(query, key, value, shared.mask, call, weights)
                                                      : sdpa_attention(config, query, key, value, shared.mask, call);
    out = torch::reshape(out, {B, T, NH * D});
    out.named("attention output, before projection");
    out = b.o_proj(out);
    return out;
  }

  Tensor embed_tokens_;
  std::vector<Block> blocks_;
  RotaryEmbedding rotary_emb_;
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_olmo(torch::Torch& torch, const Config& config) { return std::make_unique<Olmo>(torch, config); }

}  // namespace whatfits::hf
