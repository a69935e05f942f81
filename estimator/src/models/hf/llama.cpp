// Llama and the families that share its code: Mistral (a sliding window in every layer), Qwen2 (biases on query, key and value) and
// Qwen3 (a norm on each query and key head). Source: models/{llama,mistral,qwen2,qwen3}/modeling_*.py of Transformers 5.12.
#include "models/hf/families.h"
#include "models/hf/llama_like.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Llama final : public LlamaLike {
 public:
  Llama(torch::Torch& torch_, const Config& config_) : LlamaLike(torch_, config_) {
    const bool qwen2 = m.model_type == "qwen2";
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      build.block(static_cast<std::int16_t>(i));
      const std::string name = "model.layers." + std::to_string(i);
      Block b;
      b.self_attn = make_attention(name + ".self_attn", i, m.attention_bias || qwen2, m.attention_bias && !qwen2, m.model_type == "qwen3");
      b.gate_proj = build.linear(name + ".mlp.gate_proj", C, inner, m.mlp_bias);
      b.up_proj = build.linear(name + ".mlp.up_proj", C, inner, m.mlp_bias);
      b.down_proj = build.linear(name + ".mlp.down_proj", inner, C, m.mlp_bias);
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
    LlamaAttention self_attn;
    Linear gate_proj, up_proj, down_proj;
    RmsNorm input_layernorm, post_attention_layernorm;
  };

  Tensor decoder_layer(std::int64_t i, const Tensor& x, const Shared& shared) const override {
    const Block& b = blocks_[static_cast<std::size_t>(i)];
    Tensor residual = x;
    Tensor hidden = b.input_layernorm(residual);
    Tensor weights;
    hidden = attention(b.self_attn, hidden, shared, attention_call(), weights);
    hidden.named("attention output, projected");
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream after attention");
    residual = hidden;
    hidden = b.post_attention_layernorm(hidden);
    hidden = gated_mlp(b.gate_proj, b.up_proj, b.down_proj, m.activation, hidden);
    hidden.named("MLP output");
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream");
    return hidden;
  }

  Tensor final_norm(const Tensor& hidden) const override { return norm_(hidden); }

  std::vector<Block> blocks_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<CausalLM> make_llama(torch::Torch& torch, const Config& config) { return std::make_unique<Llama>(torch, config); }

}  // namespace whatfits::hf
