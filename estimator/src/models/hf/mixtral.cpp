// Mixtral and Qwen3-MoE (norms on queries and keys): a router sends each token to a few of the experts.
// Source: models/{mixtral,qwen3_moe}/modeling_*.py of Transformers 5.12.
#include "models/hf/families.h"
#include "models/hf/llama_like.h"
#include "models/hf/moe.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

class Mixtral final : public LlamaLike {
 public:
  Mixtral(torch::Torch& torch_, const Config& config_) : LlamaLike(torch_, config_) {
    embed_tokens_ = build.embedding("model.embed_tokens.weight", V, C);
    for (std::int64_t i = 0; i < m.n_layer; ++i) {
      build.block(static_cast<std::int16_t>(i));
      const std::string name = "model.layers." + std::to_string(i);
      Block b;
      b.self_attn = make_attention(name + ".self_attn", i, m.attention_bias, m.attention_bias, qwen3_);
      const Dim experts{m.n_expert};
      if (!qwen3_) b.gate = build.parameter(name + ".mlp.gate.weight", {experts, C});
      b.experts = make_experts(build, name + ".mlp.experts", experts, C, inner, m.activation);
      if (qwen3_) b.gate = build.parameter(name + ".mlp.gate.weight", {experts, C});
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
    Tensor gate;
    Experts experts;
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
    hidden = mlp(b, hidden);
    hidden.named("MLP output");
    hidden = torch::add(residual, hidden);
    hidden.named("residual stream");
    return hidden;
  }

  Tensor final_norm(const Tensor& hidden) const override { return norm_(hidden); }

  /// MixtralSparseMoeBlock, Qwen3MoeSparseMoeBlock
  Tensor mlp(const Block& b, const Tensor& x) const {
    const Dim tokens = B * T;
    const Tensor hidden = torch::view(x, {tokens, C});
    Tensor router_logits;
    torch::TopK top;
    {
      const Tensor none;
      const Tensor flat = torch::view(hidden, {tokens, C});  // the router's own reshape
      router_logits = torch::linear(flat, b.gate, none);
      router_logits.named("router logits");
      Tensor router_probs =
          qwen3_ ? torch::softmax(router_logits, DType::float32) : torch::softmax(torch::to(router_logits, DType::float32));
      router_probs.named("router probabilities");
      top = torch::topk(router_probs, Dim{m.n_expert_used});
      if (!qwen3_ || m.norm_topk_prob) torch::divide_by_sum_(top.values);
      if (qwen3_ && router_logits) top.values = torch::to(top.values, router_logits.dtype());
    }
    const Tensor out = b.experts(hidden, top);
    return torch::reshape(out, {B, T, C});
  }

  const bool qwen3_ = m.model_type == "qwen3_moe";
  std::vector<Block> blocks_;
  RmsNorm norm_;
};

}  // namespace

std::unique_ptr<CausalLM> make_mixtral(torch::Torch& torch, const Config& config) { return std::make_unique<Mixtral>(torch, config); }

}  // namespace whatfits::hf
