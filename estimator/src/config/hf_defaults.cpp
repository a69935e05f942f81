#include "config/hf_defaults.h"

namespace whatfits::config {
namespace {

struct Defaults {
  std::string_view model_type;
  std::int64_t vocab_size, n_positions, n_embd, n_layer, n_head, n_inner;
  Activation activation;
  bool tied;  ///< tie_word_embeddings
};

// Source: models/*/configuration_*.py of Transformers 5.12.
// clang-format off
constexpr Defaults kDefaults[] = {
    //              V       P       C     L   NH  inner  activation                     tied
    {"gpt2",        50257,  1024,   768,  12, 12, 0,     Activation::gelu_new,          true},
    {"gpt_bigcode", 50257,  1024,   768,  12, 12, 0,     Activation::gelu_pytorch_tanh, true},
    {"gptj",        50400,  2048,   4096, 28, 16, 0,     Activation::gelu_new,          false},
    {"gpt_neox",    50432,  2048,   6144, 44, 64, 24576, Activation::gelu,              false},
    // It has no table of positions: what the published ones were trained with.
    {"bloom",       250880, 2048,   64,   2,  8,  0,     Activation::gelu,              true},
    {"falcon",      65024,  2048,   4544, 32, 71, 0,     Activation::gelu,              true},
    {"opt",         50272,  2048,   768,  12, 12, 3072,  Activation::relu,              true},
    {"phi",         51200,  2048,   2048, 24, 32, 8192,  Activation::gelu_new,          false},
    {"phi3",        32064,  4096,   3072, 32, 32, 8192,  Activation::silu,              false},
    {"llama",       32000,  2048,   4096, 32, 32, 11008, Activation::silu,              false},
    {"mistral",     32000,  131072, 4096, 32, 32, 14336, Activation::silu,              false},
    {"mixtral",     32000,  131072, 4096, 32, 32, 14336, Activation::silu,              false},
    {"olmo",        50304,  2048,   4096, 32, 32, 11008, Activation::silu,              false},
    {"qwen2",       151936, 32768,  4096, 32, 32, 22016, Activation::silu,              false},
    {"qwen3",       151936, 32768,  4096, 32, 32, 22016, Activation::silu,              false},
    {"qwen3_moe",   151936, 32768,  2048, 24, 32, 768,   Activation::silu,              false},
    {"gemma",       256000, 8192,   3072, 28, 16, 24576, Activation::gelu_pytorch_tanh, true},
    {"gemma2",      256000, 8192,   2304, 26, 8,  9216,  Activation::gelu_pytorch_tanh, true},
};
// clang-format on

}  // namespace

ModelConfig defaults_of(std::string_view type) {
  ModelConfig m;
  for (const Defaults& row : kDefaults) {
    if (row.model_type != type) continue;
    m.vocab_size = row.vocab_size;
    m.n_positions = row.n_positions;
    m.n_embd = row.n_embd;
    m.n_layer = row.n_layer;
    m.n_head = row.n_head;
    m.n_inner = row.n_inner;
    m.activation = row.activation;
    m.tie_word_embeddings = row.tied;
  }
  m.model_type = type;
  // What only some have.
  if (type == "gpt2" || type == "gpt_bigcode") m.embd_pdrop = m.attn_pdrop = m.resid_pdrop = 0.1;
  if (type == "opt") m.resid_pdrop = 0.1;
  if (type == "gptj") m.rotary_dim = 64;
  if (type == "falcon") m.multi_query = m.parallel_residual = true;
  if (type == "gpt_neox") m.parallel_residual = m.attention_bias = true;
  if (type == "mistral" || type == "mixtral") m.n_kv_head = 8;
  if (type == "mistral" || type == "gemma2") m.sliding_window = 4096;
  if (type == "mixtral") m.n_expert = 8, m.n_expert_used = 2;
  if (type == "qwen2" || type == "qwen3") m.n_kv_head = 32;
  if (type == "qwen3_moe") m.n_kv_head = 4, m.n_expert = 128, m.n_expert_used = 8;
  if (type == "qwen3") m.head_dim = 128;
  if (type == "gemma") m.n_kv_head = 16, m.head_dim = 256;
  if (type == "gemma2") m.n_kv_head = 4, m.head_dim = 256, m.softcap_attention = m.softcap_logits = true;
  return m;
}

double default_rotary_share(std::string_view type) {
  if (type == "gpt_neox") return 0.25;
  return type == "phi" ? 0.5 : 1;
}

}  // namespace whatfits::config
