#include "models/hf/llama_like.h"

#include "torch/ops.h"
#include "torch/tensor_parallel.h"

namespace whatfits::hf {

CausalLMOutput LlamaLike::forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) {
  CausalLMOutput out;
  const Tensor hidden = model(input_ids, attention_mask, cache_of(out));
  out.logits = logits_of(hidden);
  out.loss = loss_of(out.logits, labels);
  return out;
}

Tensor LlamaLike::embed(const Tensor& input_ids) const {
  if (build.ways() > 1) return embedded(torch::vocabulary_embedding(embed_tokens_, input_ids, build.ways()));
  return embedded(torch::embedding(embed_tokens_, input_ids));
}

void LlamaLike::make_masks(const Tensor& inputs_embeds, const Tensor& attention_mask, Shared& shared) const {
  bool full = false;
  bool sliding = false;
  for (std::int64_t i = 0; i < m.n_layer; ++i) (window_of(i) > 0 ? sliding : full) = true;
  if (full) shared.mask = causal_mask(inputs_embeds, attention_mask, shared.position_ids, 0);
  if (sliding) shared.sliding_mask = causal_mask(inputs_embeds, attention_mask, shared.position_ids, m.sliding_window);
}

void LlamaLike::make_position_embeddings(const Tensor& hidden, Shared& shared) const {
  rotary_emb_(hidden, shared.position_ids, shared.cos, shared.sin);
}

Tensor LlamaLike::model(const Tensor& input_ids, const Tensor& attention_mask, DynamicCache* cache) {
  Tensor inputs_embeds = embed(input_ids);
  const Tensor position_ids = positions();
  Shared shared;
  shared.cache = cache;
  shared.position_ids = position_ids;
  make_masks(inputs_embeds, attention_mask, shared);
  inputs_embeds = first_hidden(std::move(inputs_embeds));
  Tensor hidden = inputs_embeds;
  make_position_embeddings(hidden, shared);
  for (std::int64_t i = 0; i < m.n_layer; ++i) {
    Shared own = shared;  // a layer is called with one of the two masks, and a checkpoint keeps what it is called with
    (window_of(i) > 0 ? own.mask : own.sliding_mask) = {};
    hidden = layer(hidden, [this, i, own = std::move(own)](const Tensor& x) {
      torch.recorder.layer(static_cast<std::int16_t>(i));
      return decoder_layer(i, x, own);
    });
  }
  torch.recorder.layer(kNoLayer);
  return final_norm(hidden);
}

std::int64_t LlamaLike::window_of(std::int64_t i) const {
  return m.sliding.empty() || m.sliding[static_cast<std::size_t>(i)] ? m.sliding_window : 0;
}

LlamaAttention LlamaLike::make_attention(const std::string& name, std::int64_t i, bool bias, bool output_bias, bool norms) {
  LlamaAttention a;
  a.window = window_of(i);
  a.q_proj = build.linear(name + ".q_proj", C, NH * D, bias);
  a.k_proj = build.linear(name + ".k_proj", C, KV * D, bias);
  a.v_proj = build.linear(name + ".v_proj", C, KV * D, bias);
  a.o_proj = build.linear(name + ".o_proj", NH * D, C, output_bias);
  if (norms) {
    a.q_norm = build.rms_norm(name + ".q_norm", D);
    a.k_norm = build.rms_norm(name + ".k_norm", D);
  }
  return a;
}

Tensor LlamaLike::attention(const LlamaAttention& a, const Tensor& x, const Shared& shared, const AttentionCall& call,
                            Tensor& weights) const {
  Tensor query = torch::view(a.q_proj(x), {B, T, NH, D});
  if (a.q_norm.weight) query = a.q_norm(query);
  query = torch::transpose(query, 1, 2);
  query.named("query");
  Tensor key = torch::view(a.k_proj(x), {B, T, KV, D});
  if (a.k_norm.weight) key = a.k_norm(key);
  key = torch::transpose(key, 1, 2);
  key.named("key");
  Tensor value = torch::transpose(torch::view(a.v_proj(x), {B, T, KV, D}), 1, 2);
  value.named("value");
  apply_rotary_pos_emb(query, key, shared.cos, shared.sin);
  if (shared.cache != nullptr) shared.cache->update(key, value, a.window);
  const Tensor& mask = a.window > 0 ? shared.sliding_mask : shared.mask;
  const Tensor out = attend(query, key, value, mask, call, weights);
  return a.o_proj(out);
}

}  // namespace whatfits::hf
