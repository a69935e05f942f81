// Phi-3, Phi-3.5 and Phi-4: Llama's layers with query, key and value in one product, gate and up in another, and a rotation that cuts
// off the rest of a head even where there is none. Source: models/phi3/modeling_phi3.py of Transformers 5.12.
#include "models/hf/families.h"
#include "models/hf/llama_like.h"
#include "torch/ops.h"
#include "torch/ops/experts.h"

namespace whatfits::hf {

namespace {

class Phi3 final : public LlamaLike {
 public:
  Phi3(torch::Torch& torch_, const Config& config_) : LlamaLike(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      build.block(static_cast<std::int16_t>(i));
      const std::string name = "model.layers." + std::to_string(i);
      Block b;
      b.o_proj = build.linear(name + ".self_attn.o_proj", NH * D, C, false);
      b.qkv_proj = build.linear(name + ".self_attn.qkv_proj", C, Dim{(m.n_head + 2 * m.n_kv_head) * m.head_dim}, false);
      b.gate_up_proj = build.linear(name + ".mlp.gate_up_proj", C, 2 * inner, false);
      b.down_proj = build.linear(name + ".mlp.down_proj", inner, C, false);
      b.input_layernorm = build.rms_norm(name + ".input_layernorm", C);
      b.post_attention_layernorm = build.rms_norm(name + ".post_attention_layernorm", C);
      blocks_.push_back(std::move(b));
    }
    build.block(kNoLayer);
    norm_ = build.rms_norm("model.norm", C);
    rotary_emb_ = rotary("model.rotary_emb");
    lm_head_ = build.head("lm_head.weight", C, V, embed_tokens_);
  }

 private:
  struct Block {
    Linear o_proj, qkv_proj, gate_up_proj, down_proj;
    RmsNorm input_layernorm, post_attention_layernorm;
  };

  Tensor decoder_layer(std::int64_t i, const Tensor& x, const Shared& shared) const override {
    const Block& b = blocks_[static_cast<std::size_t>(i)];
    Tensor residual = x;
    Tensor hidden = b.input_layernorm(residual);
    Tensor weights;
    hidden = fused_attention(b, i, hidden, shared, weights);
    hidden.named("attention output, projected");
    hidden = torch::add(residual, torch::dropout(hidden, dropout(m.resid_pdrop)));
    hidden.named("residual stream after attention");
    residual = hidden;
    hidden = b.post_attention_layernorm(hidden);
    hidden = mlp(b, hidden);
    hidden.named("MLP output");
    hidden = torch::add(residual, torch::dropout(hidden, dropout(m.resid_pdrop)));
    hidden.named("residual stream");
    return hidden;
  }

  Tensor final_norm(const Tensor& hidden) const override { return norm_(hidden); }

  /// cat([rotated part, rest], dim=-1) of q and k, the rest with nothing in it where the whole head is rotated.
  void rotate(Tensor& q, Tensor& k, const Tensor& cos, const Tensor& sin) const {
    const Tensor c = torch::unsqueeze(cos, 1);
    const Tensor s = torch::unsqueeze(sin, 1);
    const Dim turned{m.rotary_dim};
    const Dim rest{m.head_dim - m.rotary_dim};
    const Tensor q_rot = torch::narrow_first(q, -1, turned);
    const Tensor q_pass = torch::narrow(q, -1, turned.size, rest);
    const Tensor k_rot = torch::narrow_first(k, -1, turned);
    const Tensor k_pass = torch::narrow(k, -1, turned.size, rest);
    const auto joined = [&](const Tensor& part, const Tensor& pass) {
      const Tensor first = rotated(part, c, s);
      return torch::cat({&first, &pass}, -1);
    };
    Tensor q_embed = joined(q_rot, q_pass);
    Tensor k_embed = joined(k_rot, k_pass);
    q = std::move(q_embed);
    k = std::move(k_embed);
    q.named("query, rotated");
    k.named("key, rotated");
  }

  /// Phi3Attention.forward
  Tensor fused_attention(const Block& b, std::int64_t i, const Tensor& x, const Shared& shared, Tensor& weights) const {
    const Tensor qkv = b.qkv_proj(x);
    qkv.named("query, key and value");
    const Dim q_width = NH * D;
    const Dim kv_width = KV * D;
    Tensor query = torch::narrow(qkv, -1, 0, q_width);
    Tensor key = torch::narrow(qkv, -1, q_width.size, kv_width);
    Tensor value = torch::narrow(qkv, -1, q_width.size + kv_width.size, kv_width);
    query = torch::transpose(torch::view(query, {B, T, NH, D}), 1, 2);
    key = torch::transpose(torch::view(key, {B, T, KV, D}), 1, 2);
    value = torch::transpose(torch::view(value, {B, T, KV, D}), 1, 2);
    rotate(query, key, shared.cos, shared.sin);
    const std::int64_t window = window_of(i);
    if (shared.cache != nullptr) shared.cache->update(key, value, window);
    const Tensor out = attend(query, key, value, window > 0 ? shared.sliding_mask : shared.mask, attention_call(), weights);
    return b.o_proj(out);
  }

  Tensor mlp(const Block& b, const Tensor& x) const {
    Tensor up = b.gate_up_proj(x);
    up.named("MLP gate and up projection");
    Tensor gate;
    {
      auto halves = torch::chunk2(up);
      gate = std::move(halves[0]);
      up = std::move(halves[1]);
    }
    up = torch::mul(up, activate(m.activation, gate).named("MLP gate, activated"));
    up.named("MLP hidden layer");
    return b.down_proj(up);
  }

  std::vector<Block> blocks_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<CausalLM> make_phi3(torch::Torch& torch, const Config& config) { return std::make_unique<Phi3>(torch, config); }

}  // namespace whatfits::hf
