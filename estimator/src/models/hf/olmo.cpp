// OLMo: norms without parameters, rotation in float32. Source: models/olmo/modeling_olmo.py of Transformers 5.12.
#include "models/hf/families.h"
#include "models/hf/llama_like.h"
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
  Tensor q_embed = q;
  Tensor k_embed = k;
  apply_rotary_pos_emb(q_embed, k_embed, cos, sin);
  // What came in lives until the call returns.
  Tensor q_back = torch::to(q_embed, q.dtype());
  Tensor k_back = torch::to(k_embed, k.dtype());
  q = std::move(q_back);
  k = std::move(k_back);
}

class Olmo final : public LlamaLike {
 public:
  Olmo(torch::Torch& torch_, const Config& config_) : LlamaLike(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      build.block(static_cast<std::int16_t>(i));
      const std::string name = "model.layers." + std::to_string(i);
      Block b;
      b.self_attn = make_attention(name + ".self_attn", i, m.attention_bias, m.attention_bias);
      b.gate_proj = build.linear(name + ".mlp.gate_proj", C, inner, false);
      b.up_proj = build.linear(name + ".mlp.up_proj", C, inner, false);
      b.down_proj = build.linear(name + ".mlp.down_proj", inner, C, false);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    rotary_emb_ = rotary("model.rotary_emb");
    lm_head_ = build.head("lm_head.weight", C, V, embed_tokens_);
  }

 private:
  struct Block {
    LlamaAttention self_attn;
    Linear gate_proj, up_proj, down_proj;
  };

  void make_position_embeddings(const Tensor& hidden, Shared& shared) const override {
    rotary_emb_.in_float32(hidden, shared.position_ids, shared.cos, shared.sin);
  }

  Tensor final_norm(const Tensor& hidden) const override { return norm(hidden); }

  Tensor decoder_layer(std::int64_t i, const Tensor& x, const Shared& shared) const override {
    const Block& b = blocks_[static_cast<std::size_t>(i)];
    Tensor residual = x;
    Tensor hidden = norm(residual);
    Tensor weights;
    hidden = rotated_in_float32(b.self_attn, hidden, shared, weights);
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

  /// OlmoAttention.forward
  Tensor rotated_in_float32(const LlamaAttention& a, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Shape q_heads{B, T, NH, D};
    const Shape kv_heads{B, T, KV, D};
    Tensor query = a.q_proj(x);
    query.named("query");
    Tensor key = a.k_proj(x);
    key.named("key");
    Tensor value = a.v_proj(x);
    value.named("value");
    query = torch::transpose(torch::view(query, q_heads), 1, 2);
    key = torch::transpose(torch::view(key, kv_heads), 1, 2);
    value = torch::transpose(torch::view(value, kv_heads), 1, 2);
    rotate(query, key, shared.cos, shared.sin);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    const Tensor out = attend(query, key, value, shared.mask, attention_call(), weights);
    return a.o_proj(out);
  }

  std::vector<Block> blocks_;
};

}  // namespace

std::unique_ptr<CausalLM> make_olmo(torch::Torch& torch, const Config& config) { return std::make_unique<Olmo>(torch, config); }

}  // namespace whatfits::hf
