// Falcon: products without a fused bias, one key head for all queries or groups of them, a mask in every forward, and in the older
// models linear biases of the scores in place of rotary embeddings. Source: models/falcon/modeling_falcon.py of Transformers 5.12.
#include <algorithm>

#include "models/hf/families.h"
#include "models/hf/masks.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Falcon final : public CausalLM {
 public:
  Falcon(torch::Torch& torch_, const Config& config_) : CausalLM(torch_, config_) {
    word_embeddings_ = build.embedding("transformer.word_embeddings.weight", V, C);
    Dim fused = 3 * C;
    if (m.multi_query) fused = Dim{m.n_embd + 2 * m.head_dim};
    if (m.new_architecture) fused = Dim{(2 * m.n_kv_head + m.n_head) * m.head_dim};
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      Block b;
      b.index = static_cast<std::int16_t>(i);
      build.block(b.index);
      const std::string name = "transformer.h." + std::to_string(i);
      b.query_key_value = linear(name + ".self_attention.query_key_value", C, fused);
      b.dense = linear(name + ".self_attention.dense", C, C);
      b.dense_h_to_4h = linear(name + ".mlp.dense_h_to_4h", C, inner);
      b.dense_4h_to_h = linear(name + ".mlp.dense_4h_to_h", inner, C);
      if (!m.parallel_residual) b.mlp_norm = build.layer_norm(name + ".post_attention_layernorm", C);
      b.attention_norm = build.layer_norm(name + (m.two_norms ? ".ln_attn" : ".input_layernorm"), C);
      if (m.two_norms) b.mlp_norm = build.layer_norm(name + ".ln_mlp", C);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    ln_f_ = build.layer_norm("transformer.ln_f", C);
    rotary_emb_ = rotary("transformer.rotary_emb");
    lm_head_ = build.head("lm_head.weight", C, V, word_embeddings_);
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
    Linear query_key_value, dense, dense_h_to_4h, dense_4h_to_h;
    LayerNorm attention_norm, mlp_norm;
  };

  Linear linear(const std::string& name, Dim in, Dim out) {
    Linear l = build.linear(name, in, out, m.attention_bias);
    l.falcon = true;
    return l;
  }

  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
    Tensor inputs_embeds = embedded(torch::embedding(word_embeddings_, input_ids));
    const DType dtype = inputs_embeds.dtype();
    Tensor alibi, mask;
    if (m.alibi) {
      mask = attention_mask;
      if (!mask) mask = torch::full(torch, {B, T}, DType::int64, 1).named("attention mask", Category::inputs);
      alibi = linear_biases(mask, dtype);
    }
    Tensor position_ids = positions();
    Tensor causal_mask = own_mask(attention_mask, dtype);
    if (m.alibi) causal_mask = with_biases(std::move(causal_mask), alibi, dtype);
    Tensor hidden = inputs_embeds;
    Tensor cos, sin;
    rotary_emb_(hidden, position_ids, cos, sin);
    Shared shared;
    shared.cache = cache;
    shared.position_ids = position_ids;
    shared.mask = causal_mask;
    shared.cos = cos;
    shared.sin = sin;
    // `outputs = block(...)`: a block's second result, its attention scores, lives until the next block has returned.
    const Tensor none;
    Tensor scores;
    for (const Block& b : blocks_) {
      hidden = layer(hidden, none, scores, [this, &b, shared, alibi](const Tensor& x, const Tensor&, Tensor& second) {
        return block(b, x, shared, alibi, second);
      });
    }
    torch.recorder.layer(kNoLayer);
    hidden = ln_f_(hidden);
    shared = {};
    const torch::Frame frame{&position_ids, &inputs_embeds, &alibi, &mask, &causal_mask, &cos, &sin, &scores};
    return hidden;
  }

  /// create_causal_mask with an and_mask_function.
  Tensor own_mask(const Tensor& attention_mask, DType dtype) const {
    MaskRequest request;
    request.eager = config.attention == Attention::eager;
    request.padded = config.script.attention_mask == Script::AttentionMask::padded;
    request.has_cache = use_cache();
    request.and_true = true;
    request.dtype = dtype;
    const Tensor none;
    return make_causal_mask(torch, request, B, T, attention_mask, none);
  }

  Tensor made(OpKind op, const Shape& shape, DType dtype, const char* label) const {
    Tensor t = torch.empty(op, shape, dtype);
    t.named(label);
    torch.recorder.op({.kind = op}, {}, {t.id()});
    return t;
  }

  /// build_alibi_tensor: [B * NH, 1, T]
  Tensor linear_biases(const Tensor& mask, DType dtype) const {
    constexpr const char* kLabel = "linear biases of the scores";
    constexpr DType int32_sized = DType::float32;
    std::int64_t power = 1;
    while (power * 2 <= m.n_head) power *= 2;
    Tensor base = made(OpKind::copy, {}, DType::float32, kLabel);
    Tensor powers = made(OpKind::arange, {Dim{power}}, int32_sized, kLabel);
    Tensor slopes = made(OpKind::pow, {Dim{power}}, DType::float32, kLabel);
    Tensor extra_base, extra_powers;
    if (power != m.n_head) {
      const Dim rest{std::min(power, m.n_head - power)};
      extra_base = made(OpKind::copy, {}, DType::float32, kLabel);
      extra_powers = made(OpKind::arange, {rest}, int32_sized, kLabel);
      Tensor extra = made(OpKind::pow, {rest}, DType::float32, kLabel);
      Tensor both = torch::cat({&slopes, &extra}, 0);
      extra.reset();
      slopes = std::move(both);
    }
    Tensor steps = made(OpKind::sum, {B, T}, DType::int64, kLabel);
    steps = torch::add(steps, -1.0);
    steps = torch::mul(steps, mask);
    Tensor alibi;
    {
      const Tensor cast = torch::to(slopes, DType::bfloat16);
      alibi = made(OpKind::mul, {B, NH, T}, DType::bfloat16, kLabel);
    }
    const torch::Frame frame{&base, &powers, &slopes, &extra_base, &extra_powers, &steps, &alibi};
    return torch::to(torch::view(alibi, {B * NH, Dim{}, T}), dtype).named(kLabel);
  }

  /// torch.masked_fill(alibi / sqrt(head_dim), causal_mask < -1, min): [B, NH, T, T], whatever the mask was. `alibi` is bound to a
  /// view with a dimension for the heads.
  Tensor with_biases(Tensor causal_mask, Tensor& alibi, DType dtype) const {
    if (causal_mask.dtype() == DType::boolean) {
      const Tensor zero = torch::full(torch, {}, dtype, 0);
      const Tensor least = torch::full(torch, {}, dtype, 0);
      causal_mask = torch::where(causal_mask, zero, least).named("attention mask of the model, additive");
    }
    alibi = torch::view(alibi, {B, NH, Dim{}, T});
    Tensor scaled = torch::div(alibi, 1.0);
    scaled.named("linear biases of the scores, scaled");
    Tensor blocked = made(OpKind::compare, causal_mask.shape(), DType::boolean, "what is masked");
    Tensor out = torch.empty(OpKind::masked_fill, {B, NH, T, T}, dtype);
    out.named("attention mask with linear biases");
    const Tensor wide = torch::expand(scaled, out.shape());
    torch.recorder.op({.kind = OpKind::masked_fill}, {wide.id(), blocked.id()}, {out.id()});
    return out;
  }

  /// dropout_add(x, residual)
  static Tensor dropout_add(const Tensor& x, const Tensor& residual, double probability) {
    const Tensor out = torch::dropout(x, probability);
    return torch::add(residual, out);
  }

  Tensor block(const Block& b, const Tensor& x, const Shared& shared, const Tensor& alibi, Tensor& scores) const {
    torch.recorder.layer(b.index);
    Tensor residual = x;
    Tensor attention_in = b.attention_norm(x);
    Tensor mlp_in;
    if (m.two_norms) mlp_in = b.mlp_norm(x);
    Tensor attention_output = attention(b, attention_in, shared, alibi, scores);
    attention_output.named("attention output, projected");
    if (!m.parallel_residual) {
      residual = dropout_add(attention_output, residual, dropout(m.attn_pdrop));
      residual.named("residual stream after attention");
      mlp_in = b.mlp_norm(residual);
    } else if (!m.two_norms) {
      mlp_in = attention_in;
    }
    Tensor mlp_output = mlp(b, mlp_in);
    if (m.parallel_residual) torch::add_to(mlp_output, attention_output);
    const torch::Frame frame{&residual, &attention_in, &mlp_in, &attention_output, &mlp_output};
    return dropout_add(mlp_output, residual, dropout(m.resid_pdrop)).named("residual stream");
  }

  /// _split_heads, then [B, heads, T, D] each.
  void split_heads(const Tensor& fused_qkv, Tensor& query, Tensor& key, Tensor& value) const {
    if (m.new_architecture) {
      const std::int64_t groups = m.n_head / m.n_kv_head;
      const Shape grouped{B, T, KV, Dim{groups}, D};
      const Tensor qkv = torch::view(fused_qkv, {B, T, KV, Dim{groups + 2}, D});
      query = torch::narrow(torch::full_slices(qkv, 3), 3, 0, Dim{groups});
      Tensor one_key = torch::index(torch::full_slices(qkv, 3), 3);
      Tensor one_value = torch::index(torch::full_slices(qkv, 3), 3);
      key = torch::expand(one_key, grouped);
      value = torch::expand(one_value, grouped);
      one_key.reset();
      one_value.reset();
      // [x.flatten(2, 3) for x in (query, key, value)]: the tuple keeps all three until the list is made.
      const auto flat = [&](const Tensor& part) { return torch::reshape(part, {B, T, NH, D}); };
      Tensor q = flat(query);
      Tensor k = flat(key);
      Tensor v = flat(value);
      query = std::move(q);
      key = std::move(k);
      value = std::move(v);
    } else if (!m.multi_query) {
      const Tensor qkv = torch::view(fused_qkv, {B, T, NH, Dim{3}, D});
      const auto part = [&](std::int64_t i) { return torch::narrow(torch::select(qkv, 3, i), 3, 0, D); };
      query = part(0);
      key = part(1);
      value = part(2);
    } else {
      const Tensor qkv = torch::view(fused_qkv, {B, T, Dim{m.n_head + 2}, D});
      query = torch::narrow(torch::narrow(qkv, 2, 0, NH), 3, 0, D);
      key = torch::index(torch::narrow(qkv, 3, 0, D), 2);
      value = torch::index(torch::narrow(qkv, 3, 0, D), 2);
    }
    query.named("query");
    key.named("key");
    value.named("value");
    for (Tensor* x : {&query, &key, &value}) *x = torch::reshape(torch::transpose(*x, 1, 2), {B, heads_of(*x), T, D});
  }

  Dim heads_of(const Tensor& x) const { return x ? x.size(2) : NH; }

  Tensor attention(const Block& b, const Tensor& x, const Shared& shared, const Tensor& alibi, Tensor& scores) const {
    Tensor fused_qkv = b.query_key_value(x);
    fused_qkv.named("query, key and value");
    Tensor query, key, value;
    split_heads(fused_qkv, query, key, value);
    if (!m.alibi) apply_rotary_pos_emb(query, key, shared.cos, shared.sin);
    if (shared.cache != nullptr) shared.cache->update(key, value, 0);
    Tensor out;
    Tensor in_float32, products, logits;
    const torch::Frame frame{&fused_qkv, &query, &key, &value, &in_float32, &products, &logits};
    if (config.attention != Attention::eager) {
      out = sdpa(query, key, value, shared.mask);
    } else if (m.alibi) {
      products = torch::matmul(query, torch::transpose(key, 2, 3));
      products.named("attention scores");
      in_float32 = torch::to(products, DType::float32);
      if (products && products.dtype() != DType::float32) in_float32.named("attention scores in float32");
      logits = torch::add(in_float32, alibi);
      logits.named("attention scores with linear biases");
      torch::mul_(logits, 1.0);
      scores = softmax_of(logits, shared.mask, x);
      scores = torch::dropout(scores, dropout(m.attn_pdrop));
      out = torch::matmul(scores, value);
    } else {
      scores = torch::matmul(query, torch::transpose(key, 2, 3));
      scores.named("attention scores");
      torch::div_(scores, 1.0);
      scores = softmax_of(scores, shared.mask, x);
      out = torch::matmul(scores, value);
    }
    out.named("attention output, by head");
    out = torch::reshape(torch::transpose(out, 1, 2), {B, T, C});
    out.named("attention output, before projection");
    out = b.dense(out);
    return out;
  }

  /// F.softmax(scores + mask, dim=-1, dtype=hidden_states.dtype)
  static Tensor softmax_of(const Tensor& scores, const Tensor& mask, const Tensor& hidden) {
    if (!scores) return {};
    const Tensor masked = torch::add(scores, mask);
    masked.named("attention scores, masked");
    return torch::softmax(masked, hidden.dtype()).named("attention probabilities");
  }

  /// Without enable_gqa, and with dropout only where there are linear biases.
  Tensor sdpa(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask) const {
    torch::SdpaCall call;
    if (config.attention == Attention::sdpa_math) call.backend = torch::SdpaBackend::math;
    if (config.attention == Attention::sdpa_efficient) call.backend = torch::SdpaBackend::efficient;
    call.dropout = m.alibi ? dropout(m.attn_pdrop) : 0;
    call.causal = false;
    return torch::scaled_dot_product_attention(q, k, v, mask, call);
  }

  Tensor mlp(const Block& b, const Tensor& input) const {
    Tensor x = b.dense_h_to_4h(input);
    x.named("MLP hidden layer, before activation");
    x = activate(m.activation, x);
    x.named("MLP hidden layer, after activation");
    x = b.dense_4h_to_h(x);
    x.named("MLP output");
    return x;
  }

  Tensor word_embeddings_;
  std::vector<Block> blocks_;
  LayerNorm ln_f_;
  RotaryEmbedding rotary_emb_;
  Tensor lm_head_;
};

}  // namespace

std::unique_ptr<CausalLM> make_falcon(torch::Torch& torch, const Config& config) { return std::make_unique<Falcon>(torch, config); }

}  // namespace whatfits::hf
