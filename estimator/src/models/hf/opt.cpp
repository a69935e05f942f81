// OPT. Source: models/opt/modeling_opt.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Opt final : public CausalLM {
 public:
  Opt(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    constexpr std::int64_t kOffset = 2;  // rows of the position table that are never used
    const Dim E = m.word_embed_dim == m.n_embd ? C : Dim{m.word_embed_dim};
    embed_tokens_ = build.embedding("model.decoder.embed_tokens.weight", V, E);
    embed_positions_ = build.parameter("model.decoder.embed_positions.weight", {Dim{m.n_positions + kOffset}, C});
    if (m.word_embed_dim != m.n_embd) {
      project_out_ = build.linear("model.decoder.project_out", C, E, false);
      project_in_ = build.linear("model.decoder.project_in", E, C, false);
    }
    if (m.pre_norm) final_layer_norm_ = build.layer_norm("model.decoder.final_layer_norm", C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "model.decoder.layers." + std::to_string(i);
      b.k_proj = build.linear(name + ".self_attn.k_proj", C, C, true);
      b.v_proj = build.linear(name + ".self_attn.v_proj", C, C, true);
      b.q_proj = build.linear(name + ".self_attn.q_proj", C, C, true);
      b.out_proj = build.linear(name + ".self_attn.out_proj", C, C, true);
      b.self_attn_layer_norm = build.layer_norm(name + ".self_attn_layer_norm", C);
      b.fc1 = build.linear(name + ".fc1", C, inner, true);
      b.fc2 = build.linear(name + ".fc2", inner, C, true);
      b.final_layer_norm = build.layer_norm(name + ".final_layer_norm", C);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    lm_head_ = build.head("lm_head.weight", E, V, embed_tokens_);
  }

  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override {
    CausalLMOutput out;
    Tensor hidden = decoder(input_ids, attention_mask, cache_of(out));
    out.logits = head_of(hidden, lm_head_);
    out.loss = loss_of(out.logits, labels);
    return out;
  }

 private:
  struct Block {
    std::int16_t index = 0;
    Linear k_proj, v_proj, q_proj, out_proj;
    LayerNorm self_attn_layer_norm;
    Linear fc1, fc2;
    LayerNorm final_layer_norm;
  };

  /// Positions are counted from the mask, which is made where none is passed: in float32, and in int64 where it is passed.
  Tensor positions_of(const Tensor& mask) const {
    Tensor ids = torch.empty(OpKind::sum, {B, T}, mask.dtype());
    torch.recorder.op({.kind = OpKind::sum}, {mask.id()}, {ids.id()});
    Tensor product = torch::mul(ids, mask);
    product = torch::add(product, -1.0);
    ids = torch::to(product, DType::int64);
    ids.named("positions");
    return ids;
  }

  Tensor decoder(const Tensor& input_ids, const Tensor& passed_mask, DynamicCache* cache) {
    Tensor inputs_embeds = embedded(torch::embedding(embed_tokens_, input_ids));
    Tensor attention_mask = passed_mask;
    if (!attention_mask) attention_mask = torch::full(torch, {B, T}, DType::float32, 1).named("attention mask", Category::inputs);
    const Tensor position_ids = positions_of(attention_mask);
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    const Tensor none;
    shared.mask = causal_mask(inputs_embeds, attention_mask, none, 0);
    Tensor pos_embeds;
    {
      const Tensor shifted = torch::add(position_ids, 2.0);
      pos_embeds = torch::embedding(embed_positions_, shifted);
    }
    pos_embeds.named("position embeddings");
    if (project_in_) inputs_embeds = project_in_(inputs_embeds);
    Tensor hidden = torch::add(inputs_embeds, pos_embeds);
    hidden.named("residual stream");
    for (const Block& b : blocks_) {
      hidden = layer(hidden, [this, &b, shared](const Tensor& x) { return block(b, x, shared); });
    }
    torch.recorder.layer(kNoLayer);
    if (final_layer_norm_.weight) hidden = final_layer_norm_(hidden);
    if (project_out_) hidden = project_out_(hidden);
    return hidden;
  }

  Tensor block(const Block& b, const Tensor& x, const Shared& shared) const {
    torch.recorder.layer(b.index);
    Tensor residual = x;
    Tensor hidden = residual;
    if (m.pre_norm) hidden = b.self_attn_layer_norm(hidden);
    Tensor weights;
    hidden = attention(b, hidden, shared, weights);
    hidden.named("attention output, projected");
    hidden = torch::dropout(hidden, dropout(m.resid_pdrop));
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream after attention");
    if (!m.pre_norm) hidden = b.self_attn_layer_norm(hidden);
    hidden = torch::reshape(hidden, {B * T, C});
    residual = hidden;
    if (m.pre_norm) hidden = b.final_layer_norm(hidden);
    hidden = b.fc1(hidden);
    hidden.named("MLP hidden layer, before activation");
    hidden = activate(m.activation, hidden);
    hidden.named("MLP hidden layer, after activation");
    hidden = b.fc2(hidden);
    hidden.named("MLP output");
    hidden = torch::dropout(hidden, dropout(m.resid_pdrop));
    hidden = torch::view(torch::add(residual, hidden), {B, T, C});
    hidden.named("residual stream");
    if (!m.pre_norm) hidden = b.final_layer_norm(hidden);
    return hidden;
  }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Shape heads{B, T, NH, D};
    Tensor query = b.q_proj(x);
    query = torch::mul(query, 1.0);
    query.named("query");
    query = torch::transpose(torch::view(query, heads), 1, 2);
    Tensor key = b.k_proj(x);
    key.named("key");
    Tensor value = b.v_proj(x);
    value.named("value");
    key = torch::transpose(torch::view(key, heads), 1, 2);
    value = torch::transpose(torch::view(value, heads), 1, 2);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    AttentionCall call;
    call.dropout = dropout(m.attn_pdrop);
    call.grouped_module = false;
    Tensor out = config.attention == Attention::eager ? eager_attention(query, key, value, shared.mask, call, weights)
                                                      : sdpa_attention(config, query, key, value, shared.mask, call);
    out = torch::reshape(out, {B, T, C});
    out.named("attention output, before projection");
    out = b.out_proj(out);
    return out;
  }

  Tensor embed_tokens_, embed_positions_;
  Linear project_out_, project_in_;
  LayerNorm final_layer_norm_;
  std::vector<Block> blocks_;
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_opt(torch::Torch& torch, const Config& config) { return std::make_unique<Opt>(torch, config); }

}  // namespace whatfits::hf
