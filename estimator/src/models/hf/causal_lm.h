// What every decoder of Transformers 5.12 shares around its blocks: the cache, masks, rotary embeddings, attention, the loss.
//
// Sources: cache_utils.py, masking_utils.py, integrations/sdpa_attention.py, modeling_layers.py, loss/loss_utils.py.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "models/hf/modules.h"
#include "torch/checkpoint.h"

namespace whatfits::hf {

/// DynamicCache: keys and values of every layer. It is on by default, in training too, and lives as long as the model's outputs.
class DynamicCache {
 public:
  DynamicCache() = default;
  DynamicCache(const DynamicCache&) = delete;
  DynamicCache& operator=(const DynamicCache&) = delete;
  DynamicCache(DynamicCache&&) = default;
  DynamicCache& operator=(DynamicCache&& other) noexcept;
  ~DynamicCache() { clear(); }
  /// Appends to what the layer has (nothing, in training): a copy each. Both names are bound again to the copies.
  /// `window` > 0: a layer with a sliding window, which keeps only the last `window` - 1 tokens for later.
  void update(Tensor& keys, Tensor& values, std::int64_t window);
  void clear();

 private:
  std::vector<Tensor> held_;
};

struct CausalLMOutput {
  Tensor loss;
  Tensor logits;
  DynamicCache cache;
};

/// What a forward works out once for all its layers.
struct Shared {
  Tensor mask;          ///< for full attention; undefined where attention needs none
  Tensor sliding_mask;  ///< for layers with a sliding window
  Tensor cos, sin;      ///< rotary embeddings
  Tensor position_ids;  ///< passed on to every layer, and kept with what a checkpoint keeps
  DynamicCache* cache = nullptr;
};

/// A rotary embedding's buffers. The frequencies come twice: as in use, and as first made.
struct RotaryEmbedding {
  Tensor inv_freq, original_inv_freq;
  /// cos and sin, [1, T, rotated width of a head], in the type of `x`.
  void operator()(const Tensor& x, const Tensor& position_ids, Tensor& cos, Tensor& sin) const;
  void in_float32(const Tensor& x, const Tensor& position_ids, Tensor& cos, Tensor& sin) const;

 private:
  void make(torch::Torch& torch, DType dtype, const Tensor& position_ids, Tensor& cos, Tensor& sin) const;
};

/// (x * cos) + (rotate_half(x) * sin), with cos and sin as [1, 1, T, D].
Tensor rotated(const Tensor& x, const Tensor& cos, const Tensor& sin);

/// down(act(gate(x)) * up(x))
Tensor gated_mlp(const Linear& gate, const Linear& up, const Linear& down, Activation activation, const Tensor& x);

/// Turns q and k ([B, heads, T, D]); both names are bound again.
void apply_rotary_pos_emb(Tensor& q, Tensor& k, const Tensor& cos, const Tensor& sin);

/// What a call of an attention function says beside the tensors.
struct AttentionCall {
  std::int64_t groups = 1;  ///< query heads to a key head
  double dropout = 0;
  double scaling = 1;
  double softcap = 0;          ///< of eager attention's scores; 0 for none
  bool grouped_module = true;  ///< the module has num_key_value_groups: sdpa then asks for grouped heads even where there are none
};

/// eager_attention_forward of the Llama family: [B, heads, T, D] -> [B, T, heads, D], contiguous. `weights` lives on with the caller.
Tensor eager_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const AttentionCall& call, Tensor& weights);
/// sdpa_attention_forward
Tensor sdpa_attention(const Config& config, const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask,
                      const AttentionCall& call);
Tensor repeat_kv(const Tensor& x, std::int64_t groups);

/// A decoder with its language modelling head, ready to be trained.
class CausalLM {
 public:
  virtual ~CausalLM() = default;
  CausalLM(const CausalLM&) = delete;
  CausalLM& operator=(const CausalLM&) = delete;
  /// `labels` undefined: no loss is computed. `attention_mask` undefined: none was passed.
  virtual CausalLMOutput forward(const Tensor& input_ids, const Tensor& labels, const Tensor& attention_mask) = 0;
  const std::vector<Tensor>& trainable() const { return build.trainable(); }
  void finish() { build.finish(); }

 protected:
  CausalLM(torch::Torch& torch_, const Config& config_);

  /// Checkpointing switches the cache off (merge_with_config_defaults).
  bool use_cache() const { return config.checkpointing == Checkpointing::none && config.script.use_cache.value_or(config.model.use_cache); }
  /// torch.arange(T) + past, [1, T]
  Tensor positions() const;
  /// create_causal_mask, or with `window` create_sliding_window_causal_mask. Undefined where the kernel needs no mask.
  Tensor causal_mask(const Tensor& inputs_embeds, const Tensor& attention_mask, const Tensor& position_ids, std::int64_t window) const;
  /// A GradientCheckpointingLayer called with `x`; what else it is given goes with `forward`.
  Tensor layer(const Tensor& x, std::function<Tensor(const Tensor&)> forward);
  /// The same of a layer that takes more by position, or gives a second result.
  Tensor layer(const Tensor& x, const Tensor& positional, Tensor& second, torch::BlockOfTwo forward);
  /// The call of a module with num_key_value_groups and the model's own dropout.
  AttentionCall attention_call() const;
  /// The attention function that the request names, then reshape(B, T, heads * D): what goes to the output projection.
  Tensor attend(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const AttentionCall& call, Tensor& weights) const;
  DynamicCache* cache_of(CausalLMOutput& out) const { return use_cache() ? &out.cache : nullptr; }
  /// What the embedding module returns. gradient_checkpointing_enable() calls enable_input_require_grads(): where the embedding is frozen,
  /// its output is a leaf that wants a gradient, so that blocks are part of a graph.
  Tensor embedded(Tensor inputs_embeds) const;
  /// hidden_states[:, slice(0, None), :], then the head. `bias` may be undefined. Undefined where the loss has the head in it.
  Tensor head_of(const Tensor& hidden, const Tensor& weight, const Tensor& bias = {}) const;
  /// self.loss_function(logits, labels, vocab_size), or what `config.loss` has in its place; undefined without labels.
  Tensor loss_of(const Tensor& logits, const Tensor& labels) const;
  RotaryEmbedding rotary(const std::string& name);
  double dropout(double own) const { return config.dropout.value_or(own); }

  torch::Torch& torch;
  const Config& config;
  const ModelConfig& m;
  const Dim B, T, C, NH, V, P;
  const Dim KV, D, inner;
  Builder build;

 private:
  Tensor shifted(const Tensor& labels) const;
  Tensor loss_of_logits(const Tensor& input_logits, const Tensor& input_labels) const;
  Tensor chunked_loss(const Tensor& labels) const;
  struct Head {
    Tensor input, weight, bias;
  };
  /// From head_of() to loss_of(), for a loss that has the head in it.
  mutable Head head_;
  std::int16_t next_layer_ = 0;  ///< block that layer() calls next
};

/// The model of `config.model.model_type`, which must be one of model_types().
std::unique_ptr<CausalLM> make_model(torch::Torch& torch, const Config& config);

}  // namespace whatfits::hf
