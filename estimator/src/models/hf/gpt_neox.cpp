// GPT-NeoX and Pythia. Source: models/gpt_neox/modeling_gpt_neox.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

/// apply_rotary_pos_emb of this family: the first part of each head is rotated, the rest passes by and is put back beside it.
void apply_partial_rotary(Tensor& q, Tensor& k, const Tensor& cos, const Tensor& sin) {
  if (!q || !k) return;
  const Tensor c = torch::unsqueeze(cos, 1);
  const Tensor s = torch::unsqueeze(sin, 1);
  const Dim turned = cos.size(-1);
  const Dim rest{q.size(-1).size - turned.size};
  const Tensor q_rot = torch::narrow_first(q, -1, turned);
  const Tensor q_pass = torch::narrow(q, -1, turned.size, rest);
  const Tensor k_rot = torch::narrow_first(k, -1, turned);
  const Tensor k_pass = torch::narrow(k, -1, turned.size, rest);
  Tensor q_embed = rotated(q_rot, c, s);
  Tensor k_embed = rotated(k_rot, c, s);
  q_embed = torch::cat({&q_embed, &q_pass}, -1);
  k_embed = torch::cat({&k_embed, &k_pass}, -1);
  q = std::move(q_embed);
  k = std::move(k_embed);
}

class GptNeoX final : public CausalLM {
 public:
  GptNeoX(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    embed_in_ = build.embedding("gpt_neox.embed_in.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "gpt_neox.layers." + std::to_string(i);
      b.input_layernorm = build.layer_norm(name + ".input_layernorm", C);
      b.post_attention_layernorm = build.layer_norm(name + ".post_attention_layernorm", C);
      b.query_key_value = build.linear(name + ".attention.query_key_value", C, 3 * C, m.attention_bias);
      b.dense = build.linear(name + ".attention.dense", C, C, m.attention_bias);
      b.dense_h_to_4h = build.linear(name + ".mlp.dense_h_to_4h", C, inner, true);
      b.dense_4h_to_h = build.linear(name + ".mlp.dense_4h_to_h", inner, C, true);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    final_layer_norm_ = build.layer_norm("gpt_neox.final_layer_norm", C);
    rotary_emb_ = rotary("gpt_neox.rotary_emb");
    embed_out_ = build.head("embed_out.weight", C, V, embed_in_);
  }

  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override {
    CausalLMOutput out;
    Tensor hidden = model(input_ids, attention_mask, cache_of(out));
    out.logits = head_of(hidden, embed_out_);
    out.loss = loss_of(out.logits, labels);
    return out;
  }

 private:
  struct Block {
    std::int16_t index = 0;
    LayerNorm input_layernorm, post_attention_layernorm;
    Linear query_key_value, dense, dense_h_to_4h, dense_4h_to_h;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    const Tensor inputs_embeds = embedded(torch::embedding(embed_in_, input_ids));
    const Tensor position_ids = positions();
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    shared.mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    Tensor hidden = torch::dropout(inputs_embeds, dropout(m.resid_pdrop));
    rotary_emb_(hidden, position_ids, shared.cos, shared.sin);
    for (const Block& b : blocks_) {
      hidden = layer(hidden, [this, &b, shared](const Tensor& x) { return block(b, x, shared); });
    }
    torch.recorder.layer(kNoLayer);
    hidden = final_layer_norm_(hidden);
    return hidden;
  }

  Tensor block(const Block& b, const Tensor& x, const Shared& shared) const {
    torch.recorder.layer(b.index);
    Tensor hidden = x;
    Tensor weights;
    Tensor attn_output;
    {
      const Tensor normed = b.input_layernorm(hidden);
      attn_output = attention(b, normed, shared, weights);
    }
    attn_output.named("attention output, projected");
    attn_output = torch::dropout(attn_output, dropout(m.resid_pdrop));
    Tensor mlp_output;
    if (m.parallel_residual) {
      {
        const Tensor normed = b.post_attention_layernorm(hidden);
        mlp_output = mlp(b, normed);
      }
      mlp_output = torch::dropout(mlp_output, dropout(m.resid_pdrop));
      Tensor sum = torch::add(mlp_output, attn_output);
      hidden = torch::add(sum, hidden);
    } else {
      attn_output = torch::add(attn_output, hidden);
      {
        const Tensor normed = b.post_attention_layernorm(attn_output);
        mlp_output = mlp(b, normed);
      }
      mlp_output = torch::dropout(mlp_output, dropout(m.resid_pdrop));
      hidden = torch::add(mlp_output, attn_output);
    }
    hidden.named("residual stream");
    return hidden;
  }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Tensor qkv = torch::transpose(torch::view(b.query_key_value(x), {B, T, NH, 3 * D}), 1, 2);
    qkv.named("query, key and value");
    auto parts = torch::split3(qkv, 3);
    Tensor query = std::move(parts[0]);
    Tensor key = std::move(parts[1]);
    Tensor value = std::move(parts[2]);
    apply_partial_rotary(query, key, shared.cos, shared.sin);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    AttentionCall call;
    call.dropout = dropout(m.attn_pdrop);
    call.grouped_module = false;
    Tensor out = config.attention == Attention::eager ? eager_attention(query, key, value, shared.mask, call, weights)
                                                      : sdpa_attention(config, query, key, value, shared.mask, call);
    out = torch::reshape(out, {B, T, C});
    out.named("attention output, before projection");
    out = b.dense(out);
    return out;
  }

  Tensor mlp(const Block& b, const Tensor& x) const {
    Tensor hidden = b.dense_h_to_4h(x);
    hidden.named("MLP hidden layer, before GELU");
    hidden = activate(m.activation, hidden);
    hidden.named("MLP hidden layer, after GELU");
    hidden = b.dense_4h_to_h(hidden);
    hidden.named("MLP output");
    return hidden;
  }

  Tensor embed_in_;
  std::vector<Block> blocks_;
  LayerNorm final_layer_norm_;
  RotaryEmbedding rotary_emb_;
  Tensor embed_out_;
};

}  // namespace

std::unique_ptr<CausalLM> make_gpt_neox(torch::Torch& torch, const Config& config) { return std::make_unique<GptNeoX>(torch, config); }

}  // namespace whatfits::hf
