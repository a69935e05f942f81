#include "config/hf_model.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "config/hf_defaults.h"
#include "config/hf_form.h"

namespace whatfits::config {
namespace {

using nlohmann::ordered_json;

constexpr std::int64_t kWidth = limits::n_embd;

/// Width, layers and heads of a family that names them as Llama does.
template <class Form, class Model>
void shape(Form& form, Model& m) {
  form.integer({"vocab_size"}, 1, limits::vocab_size, m.vocab_size);
  form.integer({"hidden_size", "n_embd", "n_embed"}, 1, kWidth, m.n_embd);
  form.integer({"num_hidden_layers", "n_layer"}, 1, limits::n_layer, m.n_layer);
  form.integer({"num_attention_heads", "n_head"}, 1, kWidth, m.n_head);
}

/// The same by GPT-2's names.
template <class Form, class Model>
void gpt_shape(Form& form, Model& m) {
  form.integer({"vocab_size"}, 1, limits::vocab_size, m.vocab_size);
  form.integer({"n_positions", "max_position_embeddings", "n_ctx"}, 1, limits::positions, m.n_positions);
  form.integer({"n_embd", "hidden_size"}, 1, kWidth, m.n_embd);
  form.integer({"n_layer", "num_hidden_layers"}, 1, limits::n_layer, m.n_layer);
  form.integer({"n_head", "num_attention_heads"}, 1, kWidth, m.n_head);
}

template <class Form, class Model>
void heads(Form& form, Model& m) {
  form.integer({"num_key_value_heads"}, 1, kWidth, m.n_kv_head);
  form.integer({"head_dim"}, 1, kWidth, m.head_dim);
}

/// The fields of a family: one description, for reading and for writing. `m` comes with the family's defaults (defaults_of).
template <class Form, class Model, class Share>
void fields(Form& form, Model& m, Share& rotary_share) {
  const std::string& type = m.model_type;
  if (type == "gpt2" || type == "gpt_bigcode" || type == "gptj") {
    gpt_shape(form, m);
    form.integer({"n_inner"}, 1, 4 * kWidth, m.n_inner);
    form.activation({"activation_function"}, m.activation);
    form.probability({"embd_pdrop"}, m.embd_pdrop);
    form.probability({"attn_pdrop"}, m.attn_pdrop);
    form.probability({"resid_pdrop"}, m.resid_pdrop);
    if (type == "gptj") {
      form.integer({"rotary_dim"}, 2, kWidth, m.rotary_dim);
    } else {
      form.only("scale_attn_weights", true);
      form.only("add_cross_attention", false);
    }
    if (type == "gpt2") form.only("reorder_and_upcast_attn", false);
    if (type == "gpt2") form.only("scale_attn_by_inverse_layer_idx", false);
  } else if (type == "bloom") {
    shape(form, m);
    form.integer({"seq_length", "max_position_embeddings"}, 1, limits::positions, m.n_positions);
    form.probability({"hidden_dropout"}, m.resid_pdrop);
    form.probability({"attention_dropout"}, m.attn_pdrop);
    form.only("apply_residual_connection_post_layernorm", false);
  } else if (type == "falcon") {
    shape(form, m);
    form.integer({"max_position_embeddings"}, 1, limits::positions, m.n_positions);
    form.integer({"num_kv_heads"}, 1, kWidth, m.n_kv_head);
    form.integer({"ffn_hidden_size"}, 1, 4 * kWidth, m.n_inner);
    form.activation({"activation"}, m.activation);
    form.probability({"hidden_dropout"}, m.resid_pdrop);
    form.probability({"attention_dropout"}, m.attn_pdrop);
    form.boolean({"alibi"}, m.alibi);
    form.boolean({"new_decoder_architecture"}, m.new_architecture);
    form.boolean({"multi_query"}, m.multi_query);
    form.boolean({"parallel_attn"}, m.parallel_residual);
    form.boolean({"bias"}, m.attention_bias);
    double whole = 1;  // partial_rotary_factor is nothing to Falcon's code
    form.rope(whole);
  } else if (type == "opt") {
    shape(form, m);
    form.integer({"max_position_embeddings"}, 1, limits::positions, m.n_positions);
    form.integer({"ffn_dim"}, 1, 4 * kWidth, m.n_inner);
    form.integer({"word_embed_proj_dim"}, 1, kWidth, m.word_embed_dim);
    form.activation({"activation_function"}, m.activation);
    form.probability({"dropout"}, m.resid_pdrop);
    form.probability({"attention_dropout"}, m.attn_pdrop);
    form.boolean({"do_layer_norm_before"}, m.pre_norm);
    form.only("_remove_final_layer_norm", false);
    form.only("enable_bias", true);
    form.only("layer_norm_elementwise_affine", true);
    form.only("layerdrop", 0.0);
  } else {
    shape(form, m);
    form.integer({"max_position_embeddings", "n_positions"}, 1, limits::positions, m.n_positions);
    heads(form, m);
    form.integer({type == "qwen3_moe" ? "moe_intermediate_size" : "intermediate_size"}, 1, 4 * kWidth, m.n_inner);
    form.activation({"hidden_act", "hidden_activation"}, m.activation);
    form.probability({"attention_dropout"}, m.attn_pdrop);
    form.rope(rotary_share);
    if (type == "gpt_neox") {
      form.probability({"hidden_dropout"}, m.resid_pdrop);
      form.boolean({"use_parallel_residual"}, m.parallel_residual);
    }
    if (type == "gemma2") {
      form.integer({"sliding_window"}, 1, limits::positions, m.sliding_window);
      form.capped("attn_logit_softcapping", m.softcap_attention);
      form.capped("final_logit_softcapping", m.softcap_logits);
    }
    if (type == "phi") {
      form.probability({"embd_pdrop"}, m.embd_pdrop);
      form.probability({"resid_pdrop"}, m.resid_pdrop);
      form.only("qk_layernorm", false);
    }
    if (type == "phi3") form.probability({"resid_pdrop"}, m.resid_pdrop);
    if (type == "olmo") form.only("clip_qkv", nullptr);
    if (type == "mixtral") {
      form.integer({"num_local_experts", "num_experts"}, 1, 1024, m.n_expert);
      form.integer({"num_experts_per_tok"}, 1, 1024, m.n_expert_used);
      form.only("output_router_logits", false);
      form.only("router_jitter_noise", 0.0);
    }
    if (type == "qwen3_moe") {
      form.integer({"num_experts", "num_local_experts"}, 1, 1024, m.n_expert);
      form.integer({"num_experts_per_tok"}, 1, 1024, m.n_expert_used);
      form.boolean({"norm_topk_prob"}, m.norm_topk_prob);
      form.only("decoder_sparse_step", 1);
      form.only("mlp_only_layers", json::array());
      form.only("use_sliding_window", false);
      form.only("output_router_logits", false);
    }
    if (type == "gemma" || type == "gemma2") form.only("use_bidirectional_attention", false);
    if (type == "llama" || type == "qwen3" || type == "qwen3_moe" || type == "gpt_neox" || type == "gemma" || type == "gemma2" ||
        type == "olmo")
      form.boolean({"attention_bias"}, m.attention_bias);
    if (type == "llama") form.boolean({"mlp_bias"}, m.mlp_bias);
  }
  form.boolean({"tie_word_embeddings"}, m.tie_word_embeddings);
  form.boolean({"use_cache"}, m.use_cache);
  form.only("quantization_config", nullptr);
  form.only("is_encoder_decoder", false);
}

bool one_window(const ModelConfig& m) { return m.model_type == "mistral" || m.model_type == "mixtral" || m.model_type == "phi3"; }

/// The sliding window of the families that have one.
void read_window(FromJson& form, ModelConfig& m) {
  if (one_window(m)) {
    form.integer({"sliding_window"}, 1, limits::positions, m.sliding_window);
    if (form.null("sliding_window")) m.sliding_window = 0;
  }
  if (m.model_type == "gemma2") {
    for (std::int64_t i = 0; i < m.n_layer; ++i) m.sliding.push_back(i % 2 == 0);
    form.layers(m);
  }
  if (m.model_type == "qwen2" || m.model_type == "qwen3") {
    bool uses = false;
    form.boolean({"use_sliding_window"}, uses);
    std::int64_t window = 4096;
    form.integer({"sliding_window"}, 1, limits::positions, window);
    std::int64_t first = 28;
    form.integer({"max_window_layers"}, 0, limits::n_layer, first);
    if (!uses) {
      m.sliding_window = 0;
      return;
    }
    m.sliding_window = window;
    for (std::int64_t i = 0; i < m.n_layer; ++i) m.sliding.push_back(i >= first);
    form.layers(m);
  }
}

/// Falcon's keys depend on each other; its code fails on the combinations refused here.
void read_falcon(FromJson& form, ModelConfig& m) {
  std::int64_t norms = m.new_architecture ? 2 : 1;
  form.integer({"num_ln_in_parallel_attn"}, 1, 2, norms);
  m.two_norms = m.parallel_residual && norms == 2;
  if (m.new_architecture) {
    if (!m.parallel_residual) form.clash("parallel_attn", "must be true with new_decoder_architecture");
    return;
  }
  if (m.two_norms) form.clash("num_ln_in_parallel_attn", "must be 1 or null without new_decoder_architecture");
  if (m.multi_query) {
    m.n_kv_head = 1;
  } else if (m.n_kv_head != 0 && m.n_kv_head != m.n_head) {
    form.clash("num_kv_heads", "must be num_attention_heads (" + std::to_string(m.n_head) + ") or null without new_decoder_architecture");
    m.n_kv_head = m.n_head;
  }
}

/// What a family says in its own words about its heads.
void read_heads(FromJson& form, ModelConfig& m) {
  if (m.model_type == "falcon") read_falcon(form, m);
  if (m.model_type != "gpt_bigcode") return;
  bool multi_query = true;
  form.boolean({"multi_query"}, multi_query);
  m.n_kv_head = multi_query ? 1 : m.n_head;
}

void write_heads(const ModelConfig& m, ordered_json& out) {
  if (m.model_type == "falcon") out["num_ln_in_parallel_attn"] = m.two_norms ? 2 : 1;
  if (m.model_type == "gpt_bigcode") out["multi_query"] = m.n_kv_head == 1;
}

void write_window(const ModelConfig& m, ordered_json& out) {
  if (one_window(m)) {
    out["sliding_window"] = nullptr;
    if (m.sliding_window > 0) out["sliding_window"] = m.sliding_window;
  }
  if (m.model_type == "gemma2") ToJson(out).layers(m);
  if ((m.model_type == "qwen2" || m.model_type == "qwen3") && m.sliding_window > 0) {
    out["use_sliding_window"] = true;
    out["sliding_window"] = m.sliding_window;
    ToJson(out).layers(m);
  }
}

/// Fields that follow from others, and what must hold between them.
void derive(FromJson& form, ModelConfig& m, double rotary_share) {
  const bool learned = m.model_type == "gpt2" || m.model_type == "gpt_bigcode" || m.model_type == "opt" || m.model_type == "bloom";
  if (m.n_kv_head == 0) m.n_kv_head = m.n_head;
  if (m.n_inner == 0) m.n_inner = 4 * m.n_embd;
  if (m.model_type == "opt" && m.word_embed_dim == 0) m.word_embed_dim = m.n_embd;
  if (m.head_dim == 0) {
    if (m.n_embd % m.n_head != 0) {
      form.clash("model_type",
                 "the number of heads (" + std::to_string(m.n_head) + ") must divide the width (" + std::to_string(m.n_embd) + ")");
      return;
    }
    m.head_dim = m.n_embd / m.n_head;
  }
  if (m.n_expert_used > m.n_expert) {
    form.clash("num_experts_per_tok",
               std::to_string(m.n_expert_used) + " must be at most the number of experts (" + std::to_string(m.n_expert) + ")");
  }
  if (m.n_head % m.n_kv_head != 0) {
    form.clash(m.model_type == "falcon" ? "num_kv_heads" : "num_key_value_heads",
               std::to_string(m.n_kv_head) + " must divide the number of heads (" + std::to_string(m.n_head) + ")");
  }
  if (m.model_type == "gptj") {
    if (m.rotary_dim % 2 != 0 || m.rotary_dim > m.head_dim)
      form.clash("rotary_dim",
                 std::to_string(m.rotary_dim) + " must be even and at most the width of a head (" + std::to_string(m.head_dim) + ")");
  } else if (!learned) {
    m.rotary_dim = static_cast<std::int64_t>(static_cast<double>(m.head_dim) * rotary_share);
    if (m.rotary_dim % 2 != 0)
      form.clash("head_dim", "rotary embeddings need an even number of dimensions, not " + std::to_string(m.rotary_dim));
  }
}

}  // namespace

void read_hf_model(Reader& reader, ModelConfig& out) {
  const std::string assumed = out.assumed_from;
  out = defaults_of(out.model_type);
  out.assumed_from = assumed;
  FromJson form(reader);
  double rotary_share = default_rotary_share(out.model_type);
  fields(form, out, rotary_share);
  read_window(form, out);
  read_heads(form, out);
  derive(form, out, rotary_share);
}

void write_hf_model(const ModelConfig& model, ordered_json& out) {
  out["model_type"] = model.model_type;
  ToJson form(out);
  const double rotary_share =
      model.rotary_dim == 0 || model.head_dim == 0 ? 1.0 : static_cast<double>(model.rotary_dim) / static_cast<double>(model.head_dim);
  fields(form, model, rotary_share);
  write_window(model, out);
  write_heads(model, out);
}

}  // namespace whatfits::config
