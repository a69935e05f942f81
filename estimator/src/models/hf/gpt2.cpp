// GPT-2. Source: models/gpt2/modeling_gpt2.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Gpt2 final : public CausalLM {
 public:
  Gpt2(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    wte_ = build.embedding("transformer.wte.weight", V, C);
    wpe_ = build.parameter("transformer.wpe.weight", {P, C});
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "transformer.h." + std::to_string(i);
      b.ln_1 = build.layer_norm(name + ".ln_1", C);
      b.c_attn = build.conv1d(name + ".attn.c_attn", C, 3 * C);
      b.attn_proj = build.conv1d(name + ".attn.c_proj", C, C);
      b.ln_2 = build.layer_norm(name + ".ln_2", C);
      b.c_fc = build.conv1d(name + ".mlp.c_fc", C, inner);
      b.mlp_proj = build.conv1d(name + ".mlp.c_proj", inner, C);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    ln_f_ = build.layer_norm("transformer.ln_f", C);
    lm_head_ = build.head("lm_head.weight", C, V, wte_);
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
    LayerNorm ln_1;
    Linear c_attn, attn_proj;
    LayerNorm ln_2;
    Linear c_fc, mlp_proj;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    const Tensor inputs_embeds = embedded(torch::embedding(wte_, input_ids));
    const Tensor position_ids = positions();
    const Tensor position_embeds = torch::embedding(wpe_, position_ids);
    position_embeds.named("position embeddings");
    Tensor hidden = torch::add(inputs_embeds, position_embeds);
    hidden.named("residual stream");
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    const Tensor mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    hidden = torch::dropout(hidden, dropout(m.embd_pdrop));
    Tensor nothing;
    for (const Block& b : blocks_) {
      hidden = layer(hidden, mask, nothing,
                     [this, &b, shared](const Tensor& x, const Tensor& passed, Tensor&) { return block(b, x, passed, shared); });
    }
    torch.recorder.layer(kNoLayer);
    hidden = ln_f_(hidden);
    hidden = torch::view(hidden, {B, T, C});
    return hidden;
  }

  Tensor block(const Block& b, const Tensor& x, const Tensor& mask, const Shared& shared) const {
    torch.recorder.layer(b.index);
    Tensor residual = x;
    Tensor hidden = b.ln_1(residual);
    Tensor weights;
    Tensor attn_output = attention(b, hidden, mask, shared, weights);
    hidden = torch::add(attn_output, residual);
    hidden.named("residual stream after attention");
    residual = hidden;
    hidden = b.ln_2(hidden);
    const Tensor feed_forward = mlp(b, hidden);
    hidden = torch::add(residual, feed_forward);
    hidden.named("residual stream");
    return hidden;
  }

  Tensor attention(const Block& b, const Tensor& x, const Tensor& mask, const Shared& shared, Tensor& weights) const {
    Tensor query, key, value;
    {
      const Tensor fused = b.c_attn(x);
      fused.named("query, key and value");
      auto parts = torch::split3(fused, 2);
      query = std::move(parts[0]);
      key = std::move(parts[1]);
      value = std::move(parts[2]);
    }
    const Shape heads{B, T, NH, D};
    key = torch::transpose(torch::view(key, heads), 1, 2);
    value = torch::transpose(torch::view(value, heads), 1, 2);
    query = torch::transpose(torch::view(query, heads), 1, 2);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    AttentionCall call;
    call.dropout = dropout(m.attn_pdrop);
    call.grouped_module = false;
    Tensor out = config.attention == Attention::eager ? eager(query, key, value, mask, call, weights)
                                                      : sdpa_attention(config, query, key, value, mask, call);
    out = torch::reshape(out, {B, T, C});
    out.named("attention output, before projection");
    out = b.attn_proj(out);
    out.named("attention output, projected");
    out = torch::dropout(out, dropout(m.resid_pdrop));
    return out;
  }

  /// GPT-2's own eager_attention_forward: the scores' type stays, and the result is not made contiguous.
  static Tensor eager(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const AttentionCall& call, Tensor& weights) {
    if (!q) return {};
    weights = torch::matmul(q, torch::transpose(k, 2, 3));
    weights = torch::mul(weights, call.scaling);
    weights.named("attention scores");
    if (mask) weights = torch::add(weights, mask).named("attention scores, masked");
    weights = torch::softmax(weights);
    weights.named("attention probabilities");
    weights = torch::to(weights, v.dtype());
    weights = torch::dropout(weights, call.dropout);
    Tensor out = torch::matmul(weights, v);
    out.named("attention output, by head");
    return torch::transpose(out, 1, 2);
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
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_gpt2(torch::Torch& torch, const Config& config) { return std::make_unique<Gpt2>(torch, config); }

}  // namespace whatfits::hf
