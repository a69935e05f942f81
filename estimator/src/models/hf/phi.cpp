// Phi-1 and Phi-2: attention and MLP read one normed input; part of each head is rotated. Source: models/phi/modeling_phi.py of
// Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Phi final : public CausalLM {
 public:
  Phi(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "model.layers." + std::to_string(i);
      b.q_proj = build.linear(name + ".self_attn.q_proj", C, NH * D, true);
      b.k_proj = build.linear(name + ".self_attn.k_proj", C, KV * D, true);
      b.v_proj = build.linear(name + ".self_attn.v_proj", C, KV * D, true);
      b.dense = build.linear(name + ".self_attn.dense", NH * D, C, true);
      b.fc1 = build.linear(name + ".mlp.fc1", C, inner, true);
      b.fc2 = build.linear(name + ".mlp.fc2", inner, C, true);
      b.input_layernorm = build.layer_norm(name + ".input_layernorm", C);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    rotary_emb_ = rotary("model.rotary_emb");
    final_layernorm_ = build.layer_norm("model.final_layernorm", C);
    lm_head_ = build.head("lm_head.weight", C, V, embed_tokens_);
    lm_head_bias_ = build.parameter("lm_head.bias", {V});
  }

  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override {
    CausalLMOutput out;
    Tensor hidden = model(input_ids, attention_mask, cache_of(out));
    out.logits = head_of(hidden, lm_head_, lm_head_bias_);
    out.loss = loss_of(out.logits, labels);
    return out;
  }

 private:
  struct Block {
    std::int16_t index = 0;
    Linear q_proj, k_proj, v_proj, dense, fc1, fc2;
    LayerNorm input_layernorm;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    Tensor inputs_embeds = embedded(torch::embedding(embed_tokens_, input_ids));
    const Tensor position_ids = positions();
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    shared.mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    inputs_embeds = torch::dropout(inputs_embeds, dropout(m.embd_pdrop));
    Tensor hidden = inputs_embeds;
    rotary_emb_(hidden, position_ids, shared.cos, shared.sin);
    for (const Block& b : blocks_) {
      hidden = layer(hidden, [this, &b, shared](const Tensor& x) { return decoder_layer(b, x, shared); });
    }
    torch.recorder.layer(kNoLayer);
    hidden = final_layernorm_(hidden);
    return hidden;
  }

  Tensor decoder_layer(const Block& b, const Tensor& x, const Shared& shared) const {
    torch.recorder.layer(b.index);
    const Tensor residual = x;
    Tensor hidden = b.input_layernorm(residual);
    Tensor weights;
    Tensor attn_outputs = attention(b, hidden, shared, weights);
    attn_outputs.named("attention output, projected");
    attn_outputs = torch::dropout(attn_outputs, dropout(m.resid_pdrop));
    Tensor feed_forward = mlp(b, hidden);
    feed_forward = torch::dropout(feed_forward, dropout(m.resid_pdrop));
    const Tensor sum = torch::add(attn_outputs, feed_forward);
    hidden = torch::add(sum, residual);
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
    const Dim turned{m.rotary_dim};
    const Dim rest{m.head_dim - m.rotary_dim};
    Tensor query_rot = torch::narrow(query, -1, 0, turned);
    const Tensor query_pass = torch::narrow(query, -1, turned.size, rest);
    Tensor key_rot = torch::narrow(key, -1, 0, turned);
    const Tensor key_pass = torch::narrow(key, -1, turned.size, rest);
    apply_rotary_pos_emb(query_rot, key_rot, shared.cos, shared.sin);
    query = torch::cat({&query_rot, &query_pass}, -1);
    query.named("query, rotated");
    key = torch::cat({&key_rot, &key_pass}, -1);
    key.named("key, rotated");
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    AttentionCall call;
    call.groups = m.n_head / m.n_kv_head;
    call.dropout = dropout(m.attn_pdrop);
    Tensor out = config.attention == Attention::eager ? eager_attention(query, key, value, shared.mask, call, weights)
                                                      : sdpa_attention(config, query, key, value, shared.mask, call);
    out = torch::reshape(out, {B, T, NH * D});
    out.named("attention output, before projection");
    out = b.dense(out);
    return out;
  }

  Tensor mlp(const Block& b, const Tensor& x) const {
    Tensor hidden = b.fc1(x);
    hidden.named("MLP hidden layer, before GELU");
    hidden = activate(m.activation, hidden);
    hidden.named("MLP hidden layer, after GELU");
    hidden = b.fc2(hidden);
    hidden.named("MLP output");
    return hidden;
  }

  Tensor embed_tokens_;
  std::vector<Block> blocks_;
  RotaryEmbedding rotary_emb_;
  LayerNorm final_layernorm_;
  Tensor lm_head_, lm_head_bias_;
};

}  // namespace

std::unique_ptr<CausalLM> make_phi(torch::Torch& torch, const Config& config) { return std::make_unique<Phi>(torch, config); }

}  // namespace whatfits::hf
