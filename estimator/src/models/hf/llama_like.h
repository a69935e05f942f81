// The shape that most decoders took from Llama: token embeddings, positions, masks, rotary embeddings, layers, a norm, a head.
//
// Source: models/llama/modeling_llama.py of Transformers 5.12, whose model and head the other families repeat word for word.
#pragma once

#include <string>

#include "models/hf/causal_lm.h"

namespace whatfits::hf {

/// LlamaAttention's parameters; the norms are Qwen3's, and undefined elsewhere.
struct LlamaAttention {
  std::int64_t window = 0;  ///< of sliding attention; 0 for none
  Linear q_proj, k_proj, v_proj, o_proj;
  RmsNorm q_norm, k_norm;
};

/// A family of this shape makes its parameters in its constructor, the members here among them, and says what a layer does.
class LlamaLike : public CausalLM {
 public:
  /// LlamaForCausalLM.forward
  CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) override;

 protected:
  using CausalLM::CausalLM;

  /// LlamaDecoderLayer.forward of layer `i`.
  virtual Tensor decoder_layer(std::int64_t i, const Tensor& x, const Shared& shared) const = 0;
  /// self.norm
  virtual Tensor final_norm(const Tensor& hidden) const = 0;
  virtual Tensor embed(const Tensor& input_ids) const;
  /// What becomes of the embeddings once the masks are made.
  virtual Tensor first_hidden(Tensor inputs_embeds) const { return inputs_embeds; }
  /// create_causal_mask and create_sliding_window_causal_mask, as the layers need them.
  virtual void make_masks(const Tensor& inputs_embeds, const Tensor& attention_mask, Shared& shared) const;
  virtual void make_position_embeddings(const Tensor& hidden, Shared& shared) const;
  virtual Tensor logits_of(const Tensor& hidden) const { return head_of(hidden, lm_head_, lm_head_bias_); }

  /// The sliding window of layer `i`; 0 where it sees everything.
  std::int64_t window_of(std::int64_t i) const;
  LlamaAttention make_attention(const std::string& name, std::int64_t i, bool bias, bool output_bias, bool norms = false);
  /// LlamaAttention.forward
  Tensor attention(const LlamaAttention& a, const Tensor& x, const Shared& shared, const AttentionCall& call, Tensor& weights) const;

  Tensor embed_tokens_;
  RotaryEmbedding rotary_emb_;
  Tensor lm_head_, lm_head_bias_;

 private:
  Tensor model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache);
};

}  // namespace whatfits::hf
