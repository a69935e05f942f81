// GPT-BigCode (SantaCoder, StarCoder): GPT-2 with one key and value head for all queries. Source:
// models/gpt_bigcode/modeling_gpt_bigcode.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class GptBigCode final : public CausalLM {
 public:
  GptBigCode(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    wte_ = build.embedding("transformer.wte.weight", V, C);
    wpe_ = build.parameter("transformer.wpe.weight", {P, C});
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "transformer.h." + std::to_string(i);
      b.ln_1 = build.layer_norm(name + ".ln_1", C);
      b.c_attn = build.linear(name + ".attn.c_attn", C, Dim{m.n_embd + 2 * m.n_kv_head * m.head_dim}, true);
      b.attn_proj = build.linear(name + ".attn.c_proj", C, C, true);
      b.ln_2 = build.layer_norm(name + ".ln_2", C);
      b.c_fc = build.linear(name + ".mlp.c_fc", C, inner, true);
      b.mlp_proj = build.linear(name + ".mlp.c_proj", inner, C, true);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    ln_f_ = build.layer_norm("transformer.ln_f", C);
    bias_ = build.buffer("transformer.bias", {P, P}, DType::boolean);
    lm_head_ = build.head("lm_head.weight", C, V, wte_);
  }

  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override {
    CausalLMOutput out;
    const Tensor hidden = model(input_ids, attention_mask, cache_of(out));
    out.logits = head_of(hidden, lm_head_);
    out.loss = loss_of(out.logits, labels);
    return out;
  }

 private:
  struct Block {
    std::int16_t index = 0;
    LayerNorm ln_1;
    Linear c_attn, attn_proj;
    LayerNorm ln_2;
    Linear c_fc, mlp_proj;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    const Tensor inputs_embeds = embedded(torch::embedding(wte_, input_ids));
    const Tensor position_ids = positions();
    Shared shared;
    shared.cache = cache;
    shared.mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    const Tensor position_embeds = torch::embedding(wpe_, position_ids);
    position_embeds.named("position embeddings");
    Tensor hidden = torch::add(inputs_embeds, position_embeds);
    hidden.named("residual stream");
    hidden = torch::dropout(hidden, dropout(m.embd_pdrop));
    for (const Block& b : blocks_) {
      hidden = layer(hidden, [this, &b, shared](const Tensor& x) { return block(b, x, shared); });
    }
    torch.recorder.layer(kNoLayer);
    hidden = ln_f_(hidden);
    return torch::view(hidden, {B, T, C});
  }

  Tensor block(const Block& b, const Tensor& x, const Shared& shared) const {
    torch.recorder.layer(b.index);
    Tensor residual = x;
    Tensor hidden = b.ln_1(residual);
    Tensor weights;
    const Tensor attn_output = attention(b, hidden, shared, weights);
    hidden = torch::add(attn_output, residual);
    hidden.named("residual stream after attention");
    residual = hidden;
    hidden = b.ln_2(hidden);
    const Tensor feed_forward = mlp(b, hidden);
    hidden = torch::add(residual, feed_forward);
    hidden.named("residual stream");
    return hidden;
  }

  /// With one head for keys and values: the product cut in three along its width. With as many as queries: along each head's.
  std::array<Tensor, 3> query_key_value(const Block& b, const Tensor& x) const {
    const Tensor fused = b.c_attn(x);
    fused.named("query, key and value");
    if (m.n_kv_head == 1) {
      auto parts = torch::split3(torch::unsqueeze(fused, 1), 3, {C, D, D});
      parts[0] = torch::transpose(torch::view(parts[0], {B, T, NH, D}), 1, 2);
      return parts;
    }
    return torch::split3(torch::transpose(torch::view(fused, {B, T, NH, 3 * D}), 1, 2), 3);
  }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    auto [query, key, value] = query_key_value(b, x);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    Tensor out = attend(query, key, value, shared.mask, attention_call(), weights);
    out = b.attn_proj(out);
    out.named("attention output, projected");
    return torch::dropout(out, dropout(m.resid_pdrop));
  }

  Tensor mlp(const Block& b, const Tensor& x) const {
    Tensor hidden = b.c_fc(x);
    hidden.named("MLP hidden layer, before GELU");
    hidden = activate(m.activation, hidden);
    hidden.named("MLP hidden layer, after GELU");
    hidden = b.mlp_proj(hidden);
    hidden.named("MLP output");
    return torch::dropout(hidden, dropout(m.resid_pdrop));
  }

  Tensor wte_, wpe_;
  std::vector<Block> blocks_;
  LayerNorm ln_f_;
  Tensor bias_;  ///< the causal mask of older versions: made, moved, not used
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_gpt_bigcode(torch::Torch& torch, const Config& config) {
  return std::make_unique<GptBigCode>(torch, config);
}

}  // namespace whatfits::hf
