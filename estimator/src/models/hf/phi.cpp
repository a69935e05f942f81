// Phi-1 and Phi-2: attention and MLP read one normed input; part of each head is rotated. Source: models/phi/modeling_phi.py of
// Transformers 5.12.
#include "models/hf/families.h"
#include "models/hf/llama_like.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Phi final : public LlamaLike {
 public:
  Phi(torch::Torch& torch_, const Config& config_) : LlamaLike(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      build.block(static_cast<std::int16_t>(i));
      const std::string name = "model.layers." + std::to_string(i);
      Block b;
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

 private:
  struct Block {
    Linear q_proj, k_proj, v_proj, dense, fc1, fc2;
    LayerNorm input_layernorm;
  };

  Tensor first_hidden(Tensor inputs_embeds) const override { return torch::dropout(inputs_embeds, dropout(m.embd_pdrop)); }

  Tensor final_norm(const Tensor& hidden) const override { return final_layernorm_(hidden); }

  Tensor decoder_layer(std::int64_t i, const Tensor& x, const Shared& shared) const override {
    const Block& b = blocks_[static_cast<std::size_t>(i)];
    const Tensor residual = x;
    Tensor hidden = b.input_layernorm(residual);
    Tensor weights;
    Tensor attn_outputs = partly_rotated(b, hidden, shared, weights);
    attn_outputs.named("attention output, projected");
    attn_outputs = torch::dropout(attn_outputs, dropout(m.resid_pdrop));
    Tensor feed_forward = mlp(b, hidden);
    feed_forward = torch::dropout(feed_forward, dropout(m.resid_pdrop));
    const Tensor sum = torch::add(attn_outputs, feed_forward);
    hidden = torch::add(sum, residual);
    hidden.named("residual stream");
    return hidden;
  }

  /// PhiAttention.forward
  Tensor partly_rotated(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
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
    Tensor query_rot = torch::narrow_first(query, -1, turned);
    const Tensor query_pass = torch::narrow(query, -1, turned.size, rest);
    Tensor key_rot = torch::narrow_first(key, -1, turned);
    const Tensor key_pass = torch::narrow(key, -1, turned.size, rest);
    apply_rotary_pos_emb(query_rot, key_rot, shared.cos, shared.sin);
    query = torch::cat({&query_rot, &query_pass}, -1);
    query.named("query, rotated");
    key = torch::cat({&key_rot, &key_pass}, -1);
    key.named("key, rotated");
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    const Tensor out = attend(query, key, value, shared.mask, attention_call(), weights);
    return b.dense(out);
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

  std::vector<Block> blocks_;
  LayerNorm final_layernorm_;
};

}  // namespace

std::unique_ptr<CausalLM> make_phi(torch::Torch& torch, const Config& config) { return std::make_unique<Phi>(torch, config); }

}  // namespace whatfits::hf
