// GPT-J: attention and MLP read one normed input, neighbours in a head are rotated as pairs, scores in float32; eager attention only.
// Source: models/gptj/modeling_gptj.py of Transformers 5.12.
#include "models/hf/families.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

/// stack((-x2, x1), -1).flatten(-2), with the even elements as x1 and the odd ones as x2.
Tensor rotate_every_two(const Tensor& x) {
  if (!x) return {};
  const Dim half{x.size(-1).size / 2};
  const Tensor x1 = torch::narrow(torch::full_slices(x, 3), -1, 0, half, 2);
  const Tensor x2 = torch::narrow(torch::full_slices(x, 3), -1, 1, half, 2);
  const Tensor negated = torch::neg(x2);
  const Tensor pairs = torch::stack_last(negated, x1);
  return torch::view(pairs, x.shape());
}

/// sin and cos are [1, T, half of the rotated width]; each is repeated for the two of a pair.
Tensor apply_rotary(const Tensor& x, const Tensor& sin, const Tensor& cos) {
  if (!x) return {};
  const auto repeated = [](const Tensor& values) {
    const Tensor part = torch::unsqueeze(torch::unsqueeze(values, 2), 4);
    const Dim half = part.size(3);
    const Tensor twice = torch::clone(torch::expand(part, {part.size(0), part.size(1), Dim{}, half, Dim{2}}));
    return torch::view(twice, {part.size(0), part.size(1), Dim{}, 2 * half}).named("rotary embeddings, each twice");
  };
  const Tensor sines = repeated(sin);
  const Tensor cosines = repeated(cos);
  const Tensor straight = torch::mul(x, cosines);
  Tensor turned = rotate_every_two(x);
  turned = torch::mul(turned, sines);
  return torch::add(straight, turned);
}

class GptJ final : public CausalLM {
 public:
  GptJ(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    wte_ = build.embedding("transformer.wte.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "transformer.h." + std::to_string(i);
      b.ln_1 = build.layer_norm(name + ".ln_1", C);
      b.k_proj = build.linear(name + ".attn.k_proj", C, C, false);
      b.v_proj = build.linear(name + ".attn.v_proj", C, C, false);
      b.q_proj = build.linear(name + ".attn.q_proj", C, C, false);
      b.out_proj = build.linear(name + ".attn.out_proj", C, C, false);
      b.embed_positions = build.buffer(name + ".attn.embed_positions", {P, Dim{m.rotary_dim}}, DType::float32);
      b.fc_in = build.linear(name + ".mlp.fc_in", C, inner, true);
      b.fc_out = build.linear(name + ".mlp.fc_out", inner, C, true);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    ln_f_ = build.layer_norm("transformer.ln_f", C);
    lm_head_ = build.head("lm_head.weight", C, V, wte_);
    lm_head_bias_ = build.parameter("lm_head.bias", {V});
  }

  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override {
    CausalLMOutput out;
    const Tensor hidden = model(input_ids, attention_mask, cache_of(out));
    out.logits = head_of(hidden, lm_head_, lm_head_bias_);
    out.loss = loss_of(out.logits, labels);
    return out;
  }

 private:
  struct Block {
    std::int16_t index = 0;
    LayerNorm ln_1;
    Linear k_proj, v_proj, q_proj, out_proj;
    Tensor embed_positions;  ///< sines and cosines of every position
    Linear fc_in, fc_out;
  };

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    const Tensor inputs_embeds = embedded(torch::embedding(wte_, input_ids));
    const Tensor position_ids = positions();
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    shared.mask = causal_mask(inputs_embeds, attention_mask, position_ids, 0);
    Tensor hidden = torch::dropout(inputs_embeds, dropout(m.embd_pdrop));
    // `outputs = block(...)`: a block's second result, its attention probabilities, lives until the next block has returned.
    const Tensor none;
    Tensor attentions;
    for (const Block& b : blocks_) {
      hidden = layer(hidden, none, attentions,
                     [this, &b, shared](const Tensor& x, const Tensor&, Tensor& probs) { return block(b, x, shared, probs); });
    }
    torch.recorder.layer(kNoLayer);
    hidden = ln_f_(hidden);
    return torch::view(hidden, {B, T, C});
  }

  Tensor block(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    torch.recorder.layer(b.index);
    const Tensor residual = x;
    Tensor hidden = b.ln_1(residual);
    const Tensor attn_outputs = attention(b, hidden, shared, weights);
    const Tensor feed_forward = mlp(b, hidden);
    const Tensor sum = torch::add(attn_outputs, feed_forward);
    hidden = torch::add(sum, residual);
    hidden.named("residual stream");
    return hidden;
  }

  /// embed_positions.repeat(1, 1, 1) and torch.gather(...): copies, whatever is looked up.
  Tensor looked_up(OpKind op, const Shape& shape, DType dtype) const {
    if (torch.stopped) return {};
    Tensor t = torch.empty(op, shape, dtype);
    t.named("rotary embeddings, looked up");
    torch.recorder.op({.kind = op}, {}, {t.id()});
    return t;
  }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Shape heads{B, T, NH, D};
    Tensor query = b.q_proj(x);
    query.named("query");
    Tensor key = b.k_proj(x);
    key.named("key");
    Tensor value = b.v_proj(x);
    value.named("value");
    query = torch::view(query, heads);
    key = torch::view(key, heads);
    value = torch::transpose(torch::view(value, heads), 1, 2);

    const Dim turned{m.rotary_dim};
    const Dim rest{m.head_dim - m.rotary_dim};
    const Tensor embed_positions = looked_up(OpKind::copy, {Dim{}, P, turned}, DType::float32);
    const Tensor repeated_position_ids = looked_up(OpKind::copy, {Dim{}, T, turned}, DType::int64);
    const Tensor sincos = torch::to(looked_up(OpKind::index, {Dim{}, T, turned}, DType::float32), key ? key.dtype() : DType::float32);
    const Dim half{m.rotary_dim / 2};
    const Tensor sin = torch::narrow(sincos, -1, 0, half);
    const Tensor cos = torch::narrow(sincos, -1, half.size, half);
    Tensor k_rot = torch::narrow_first(torch::full_slices(key, 3), -1, turned);
    const Tensor k_pass = torch::narrow(torch::full_slices(key, 3), -1, turned.size, rest);
    Tensor q_rot = torch::narrow_first(torch::full_slices(query, 3), -1, turned);
    const Tensor q_pass = torch::narrow(torch::full_slices(query, 3), -1, turned.size, rest);
    k_rot = apply_rotary(k_rot, sin, cos);
    q_rot = apply_rotary(q_rot, sin, cos);
    key = torch::cat({&k_rot, &k_pass}, -1);
    key.named("key, rotated");
    query = torch::cat({&q_rot, &q_pass}, -1);
    query.named("query, rotated");

    key = torch::transpose(key, 1, 2);
    query = torch::transpose(query, 1, 2);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    Tensor out = attend_in_float32(query, key, value, shared.mask, weights);
    out = torch::view(torch::contiguous(torch::transpose(out, 1, 2)), {B, T, C});
    out.named("attention output, before projection");
    out = b.out_proj(out);
    out.named("attention output, projected");
    return torch::dropout(out, dropout(m.resid_pdrop));
  }

  /// GPTJAttention._attn
  Tensor attend_in_float32(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, Tensor& weights) const {
    if (!q || !k || !v) return {};
    const Tensor query = torch::to(q, DType::float32);
    query.named("query in float32");
    const Tensor key = torch::to(k, DType::float32);
    key.named("key in float32");
    weights = torch::matmul(query, torch::transpose(key, 2, 3));
    weights = torch::div(weights, 1.0);
    weights.named("attention scores");
    if (mask) weights = torch::add(weights, mask).named("attention scores, masked");
    weights = torch::softmax(weights);
    weights.named("attention probabilities");
    weights = torch::to(weights, v.dtype());
    weights = torch::dropout(weights, dropout(m.attn_pdrop));
    Tensor out = torch::matmul(weights, v);
    return out.named("attention output, by head");
  }

  Tensor mlp(const Block& b, const Tensor& x) const {
    Tensor hidden = b.fc_in(x);
    hidden.named("MLP hidden layer, before GELU");
    hidden = activate(m.activation, hidden);
    hidden.named("MLP hidden layer, after GELU");
    hidden = b.fc_out(hidden);
    hidden.named("MLP output");
    return torch::dropout(hidden, dropout(m.resid_pdrop));
  }

  Tensor wte_;
  std::vector<Block> blocks_;
  LayerNorm ln_f_;
  Tensor lm_head_, lm_head_bias_;
};

}  // namespace

std::unique_ptr<CausalLM> make_gptj(torch::Torch& torch, const Config& config) { return std::make_unique<GptJ>(torch, config); }

}  // namespace whatfits::hf
