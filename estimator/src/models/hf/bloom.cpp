// BLOOM: linear biases on the scores in place of positions, eager attention only. Source: models/bloom/modeling_bloom.py of
// Transformers 5.12.
#include <algorithm>

#include "models/hf/families.h"
#include "torch/autograd.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

/// 0.79788456 * x * (1 + 0.044715 * x * x)
Tensor inner_of(const Tensor& x) {
  const Tensor scaled = torch::mul(x, 0.79788456);
  Tensor cube = torch::mul(x, 0.044715);
  cube = torch::mul(cube, x);
  cube = torch::add(cube, 1.0);
  return torch::mul(scaled, cube);
}

/// GeLUFunction: keeps its input only, and works out the rest again.
struct GeluFunctionBackward final : torch::Node {
  using Node::Node;
  torch::Saved input;
  void apply(torch::Torch&, torch::Grads& grads, torch::Grads& out) override {
    const Tensor x = input.unpack();
    Tensor tanh_out;
    {
      const Tensor inner = inner_of(x);
      tanh_out = torch::tanh(inner);
    }
    Tensor ff;
    {
      Tensor product;
      {
        const Tensor half = torch::mul(x, 0.5);
        Tensor left, right;
        left = torch::mul(tanh_out, tanh_out);
        left = torch::add(left, 1.0);
        right = torch::mul(x, 0.1070322243);
        right = torch::mul(right, x);
        right = torch::add(right, 0.79788456);
        left = torch::mul(left, right);
        right.reset();
        product = torch::mul(half, left);
      }
      Tensor second = torch::add(tanh_out, 1.0);
      second = torch::mul(second, 0.5);
      ff = torch::add(product, second);
    }
    out.push_back(torch::mul(ff, grads[0]));
  }
  void release() override { input.reset(); }
};

/// x * 0.5 * (1.0 + tanh(...))
Tensor bloom_gelu(const Tensor& x) {
  if (!x) return {};
  torch::Torch& torch = x.torch();
  const auto node = torch::make_node<GeluFunctionBackward>(torch, {&x});
  if (node) node->input.save(x);
  if (torch.stopped) return {};
  Tensor out;
  {
    const torch::With no_grad(torch.grad_enabled, false);
    const Tensor half = torch::mul(x, 0.5);
    Tensor inner = inner_of(x);
    inner = torch::tanh(inner);
    inner = torch::add(inner, 1.0);
    out = torch::mul(half, inner);
  }
  return torch::attach(std::move(out), node);
}

class Bloom final : public CausalLM {
 public:
  Bloom(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    word_embeddings_ = build.embedding("transformer.word_embeddings.weight", V, C);
    word_embeddings_layernorm_ = build.layer_norm("transformer.word_embeddings_layernorm", C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "transformer.h." + std::to_string(i);
      b.input_layernorm = build.layer_norm(name + ".input_layernorm", C);
      b.query_key_value = build.linear(name + ".self_attention.query_key_value", C, 3 * C, true);
      b.dense = build.linear(name + ".self_attention.dense", C, C, true);
      b.post_attention_layernorm = build.layer_norm(name + ".post_attention_layernorm", C);
      b.dense_h_to_4h = build.linear(name + ".mlp.dense_h_to_4h", C, 4 * C, true);
      b.dense_4h_to_h = build.linear(name + ".mlp.dense_4h_to_h", 4 * C, C, true);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    ln_f_ = build.layer_norm("transformer.ln_f", C);
    lm_head_ = build.head("lm_head.weight", C, V, word_embeddings_);
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
    LayerNorm input_layernorm;
    Linear query_key_value, dense;
    LayerNorm post_attention_layernorm;
    Linear dense_h_to_4h, dense_4h_to_h;
  };

  Tensor model(const Tensor& input_ids, const Tensor& passed_mask, DynamicCache* cache) {
    const Tensor inputs_embeds = embedded(torch::embedding(word_embeddings_, input_ids));
    Tensor hidden = word_embeddings_layernorm_(inputs_embeds);
    Tensor attention_mask = passed_mask;
    if (!attention_mask) attention_mask = torch::full(torch, {B, T}, DType::float32, 1).named("attention mask", Category::inputs);
    Shared shared;
    shared.cache = cache;
    const Tensor alibi = linear_biases(attention_mask, hidden.dtype());
    const Tensor none;
    shared.mask = causal_mask(inputs_embeds, attention_mask, none, 0);
    // `outputs = block(...)`: a block's second result, its attention probabilities, lives until the next block has returned.
    Tensor attentions;
    for (const Block& b : blocks_) {
      hidden = layer(hidden, none, attentions, [this, &b, shared, alibi](const Tensor& x, const Tensor&, Tensor& probs) {
        return block(b, x, shared, alibi, probs);
      });
    }
    torch.recorder.layer(kNoLayer);
    hidden = ln_f_(hidden);
    return hidden;
  }

  Tensor small(OpKind op, const Shape& shape, DType dtype) const {
    Tensor t = torch.empty(op, shape, dtype);
    t.named("linear biases of the scores");
    torch.recorder.op({.kind = op}, {}, {t.id()});
    return t;
  }

  /// build_alibi_tensor: [B * NH, 1, T]
  Tensor linear_biases(const Tensor& mask, DType dtype) const {
    std::int64_t power = 1;
    while (power * 2 <= m.n_head) power *= 2;
    const DType int32_sized = DType::float32;
    const Tensor base = small(OpKind::copy, {}, DType::float32);
    const Tensor powers = small(OpKind::arange, {Dim{power}}, int32_sized);
    Tensor slopes = small(OpKind::pow, {Dim{power}}, DType::float32);
    Tensor extra_base, extra_powers;
    if (power != m.n_head) {
      const Dim rest{std::min(power, m.n_head - power)};
      extra_base = small(OpKind::copy, {}, DType::float32);
      extra_powers = small(OpKind::arange, {rest}, int32_sized);
      const Tensor extra = small(OpKind::pow, {rest}, DType::float32);
      slopes = torch::cat({&slopes, &extra}, 0);
    }
    Tensor steps;
    {
      Tensor shifted = small(OpKind::sum, {B, T}, mask.dtype());
      shifted = torch::add(shifted, -1.0);
      steps = torch::mul(shifted, mask);
    }
    Tensor alibi = small(OpKind::mul, {B, NH, T}, DType::float32);
    alibi = torch::view(alibi, {B * NH, Dim{}, T});
    return torch::to(alibi, dtype).named("linear biases of the scores");
  }

  Tensor block(const Block& b, const Tensor& x, const Shared& shared, const Tensor& alibi, Tensor& probs) const {
    torch.recorder.layer(b.index);
    Tensor normed = b.input_layernorm(x);
    const Tensor attention_output = attention(b, normed, x, shared, alibi, probs);
    attention_output.named("residual stream after attention");
    normed = b.post_attention_layernorm(attention_output);
    Tensor output = mlp(b, normed, attention_output);
    output.named("residual stream");
    return output;
  }

  /// fused[..., i, :].transpose(1, 2)
  Tensor part(const Tensor& fused, std::int64_t i) const {
    return torch::transpose(torch::narrow(torch::select(fused, 3, i), 3, 0, D), 1, 2);
  }

  /// dropout_add(x, residual)
  Tensor dropout_add(const Tensor& x, const Tensor& residual) const {
    const Tensor out = torch::dropout(x, dropout(m.resid_pdrop));
    return torch::add(residual, out);
  }

  Tensor attention(const Block& b, const Tensor& x, const Tensor& residual, const Shared& shared, const Tensor& alibi,
                   Tensor& probs) const {
    Tensor fused = b.query_key_value(x);
    fused.named("query, key and value");
    const Tensor split = torch::view(fused, {B, T, NH, Dim{3}, D});
    Tensor query = part(split, 0);
    Tensor key = part(split, 1);
    Tensor value = part(split, 2);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    query = torch::reshape(query, {B * NH, T, D});
    key = torch::transpose(torch::reshape(key, {B * NH, T, D}), 1, 2);
    value = torch::reshape(value, {B * NH, T, D});
    const Tensor scores = torch::baddbmm(alibi, query, key);
    scores.named("attention scores");
    Tensor weights = torch::view(scores, {B, NH, T, T});
    if (shared.mask) weights = torch::add(weights, shared.mask).named("attention scores, masked");
    {
      Tensor wide = torch::softmax(weights, DType::float32);
      wide.named("attention probabilities");
      probs = torch::to(wide, query ? query.dtype() : DType::float32);
    }
    probs = torch::dropout(probs, dropout(m.attn_pdrop));
    Tensor context;
    {
      const Tensor flat = torch::view(probs, {B * NH, T, T});
      context = torch::matmul(flat, value);
    }
    context.named("attention output, by head");
    context = torch::reshape(torch::transpose(torch::view(context, {B, NH, T, D}), 1, 2), {B, T, C});
    context.named("attention output, before projection");
    Tensor output = b.dense(context);
    output.named("attention output, projected");
    output = dropout_add(output, residual);
    return output;
  }

  Tensor mlp(const Block& b, const Tensor& x, const Tensor& residual) const {
    Tensor hidden = b.dense_h_to_4h(x);
    hidden.named("MLP hidden layer, before GELU");
    hidden = bloom_gelu(hidden);
    hidden.named("MLP hidden layer, after GELU");
    const Tensor intermediate = b.dense_4h_to_h(hidden);
    intermediate.named("MLP output");
    return dropout_add(intermediate, residual);
  }

  Tensor word_embeddings_;
  LayerNorm word_embeddings_layernorm_;
  std::vector<Block> blocks_;
  LayerNorm ln_f_;
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_bloom(torch::Torch& torch, const Config& config) { return std::make_unique<Bloom>(torch, config); }

}  // namespace whatfits::hf
