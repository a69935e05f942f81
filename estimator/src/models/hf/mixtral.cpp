// Mixtral: a router sends each token to a few of the experts. Source: models/mixtral/modeling_mixtral.py and integrations/moe.py
// (grouped_mm_experts_forward) of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"
#include "torch/ops/experts.h"

namespace whatfits::hf {

namespace {

class Mixtral final : public CausalLM {
 public:
  Mixtral(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      b.window = m.sliding_window > 0 && (m.sliding.empty() || m.sliding[static_cast<std::size_t>(i)]) ? m.sliding_window : 0;
      build.block(b.index);
      const std::string name = "model.layers." + std::to_string(i);
      b.q_proj = build.linear(name + ".self_attn.q_proj", C, NH * D, false);
      b.k_proj = build.linear(name + ".self_attn.k_proj", C, KV * D, false);
      b.v_proj = build.linear(name + ".self_attn.v_proj", C, KV * D, false);
      b.o_proj = build.linear(name + ".self_attn.o_proj", NH * D, C, false);
      const Dim experts{m.n_expert};
      b.gate = build.parameter(name + ".mlp.gate.weight", {experts, C});
      b.gate_up_proj = build.parameter(name + ".mlp.experts.gate_up_proj", {experts, 2 * inner, C});
      b.down_proj = build.parameter(name + ".mlp.experts.down_proj", {experts, C, inner});
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
    Tensor gate, gate_up_proj, down_proj;
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
    hidden = mlp(b, hidden);
    hidden.named("MLP output");
    hidden = torch::add(residual, hidden);
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

  Tensor small(OpKind op, const Shape& shape, DType dtype) const {
    if (torch.stopped) return {};
    Tensor t = torch.empty(op, shape, dtype);
    t.named("sorting tokens by expert");
    torch.recorder.op({.kind = op}, {}, {t.id()});
    return t;
  }

  /// MixtralSparseMoeBlock
  Tensor mlp(const Block& b, const Tensor& x) const {
    const Dim tokens = B * T;
    Tensor hidden = torch::view(x, {tokens, C});
    Tensor router_logits;
    torch::TopK top;
    {
      const Tensor none;
      const Tensor flat = torch::view(hidden, {tokens, C});  // the router's own reshape
      router_logits = torch::linear(flat, b.gate, none);
      router_logits.named("router logits");
      Tensor router_probs = torch::softmax(torch::to(router_logits, DType::float32));
      router_probs.named("router probabilities");
      top = torch::topk(router_probs, Dim{m.n_expert_used});
      torch::divide_by_sum_(top.values);
    }
    Tensor out = experts(b, hidden, top);
    return torch::view(out, {B, T, C});
  }

  /// grouped_mm_experts_forward: pairs of token and expert sorted by expert, two products, and back.
  Tensor experts(const Block& b, const Tensor& hidden, const torch::TopK& top) const {
    const Dim tokens = B * T;
    const Dim k{m.n_expert_used};
    const Dim pairs{tokens.size * k.size};
    const Tensor sample_weights = torch::view(top.values, {pairs});
    const Tensor expert_ids = small(OpKind::index, {pairs}, DType::int64);
    const Tensor perm = small(OpKind::index, {pairs}, DType::int64);
    small(OpKind::arange, {pairs}, DType::int64);
    Tensor selected;
    {
      const Tensor rows = small(OpKind::div_scalar, {pairs}, DType::int64);
      selected = torch::index_rows(hidden, rows);
    }
    selected.named("tokens, sorted by expert");
    const Tensor weights = torch::index_rows(sample_weights, perm);
    const Tensor histogram_input = small(OpKind::copy, {pairs}, DType::float32);  // int32: as wide
    const Tensor per_expert = small(OpKind::sum, {Dim{m.n_expert}}, DType::float32);
    const Tensor offsets = small(OpKind::sum, {Dim{m.n_expert}}, DType::float32);
    if (!torch.stopped) torch.scratch(OpKind::sum, 767).named("scan scratch");
    const Tensor sentinel = small(OpKind::compare, {pairs, Dim{}}, DType::boolean);
    torch::masked_fill_(selected, sentinel);
    Tensor proj = torch::grouped_mm(selected, b.gate_up_proj, offsets);
    proj.named("expert hidden layer, gate and up");
    {
      const auto halves = torch::chunk2(proj);
      Tensor gated = activate(m.activation, halves[0]);
      gated.named("expert gate, activated");
      proj = torch::mul(gated, halves[1]);
    }
    proj.named("expert hidden layer");
    proj = torch::grouped_mm(proj, b.down_proj, offsets);
    proj.named("expert output");
    Tensor weighted = torch::mul(proj, torch::unsqueeze(weights, 1));
    torch::masked_fill_(weighted, sentinel);
    const Tensor inverse = small(OpKind::index, {pairs}, DType::int64);
    small(OpKind::arange, {pairs}, DType::int64);
    weighted = torch::index_rows(weighted, inverse);
    const Tensor sum = torch::sum_groups(weighted, tokens, k);
    return torch::to(sum, hidden ? hidden.dtype() : DType::float32);
  }

  Tensor embed_tokens_;
  std::vector<Block> blocks_;
  RmsNorm norm_;
  RotaryEmbedding rotary_emb_;
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_mixtral(torch::Torch& torch, const Config& config) { return std::make_unique<Mixtral>(torch, config); }

}  // namespace whatfits::hf
