// What is asked: one training run, in plain structs with defaults.
// Keys, values and defaults of the JSON form are those of the request in README.md; validation is in request.h.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whatfits/bytes.h"

namespace whatfits {

enum class Precision : std::uint8_t { fp32, bf16, amp_bf16, amp_fp16, fp16 };
enum class Attention : std::uint8_t { eager, sdpa, sdpa_math, sdpa_efficient, sdpa_flash, flash_attention_2 };
enum class Optimizer : std::uint8_t {
  adamw,
  adamw_fused,
  adamw_for_loop,
  sgd,
  sgd_momentum,
  adam,
  adam_amsgrad,
  sgd_momentum_fused,
  adagrad,
  rmsprop,
  adafactor,
  adafactor_foreach,
  adafactor_transformers,
  none,
  adamw_8bit,
  adamw_8bit_paged,
  muon,
  lion
};
/// How the loss comes from the last hidden states.
enum class Loss : std::uint8_t {
  standard,      ///< as the model's code does: all logits, then the loss
  fused_linear,  ///< Liger's fused linear cross-entropy: logits of some tokens at a time, and their gradients at once
  chunked        ///< head and loss of some tokens at a time, each part under a checkpoint: a loop in plain PyTorch
};
enum class Checkpointing : std::uint8_t { none, full, full_reentrant, selective };
enum class ZeroGrad : std::uint8_t { set_to_none, zero_fill };
enum class Engine : std::uint8_t { torch, formula, llm_c, mlx };

/// Activations of an MLP, by Hugging Face's names for them (its `hidden_act`).
enum class Activation : std::uint8_t { gelu, gelu_new, gelu_pytorch_tanh, relu, silu };

/// A decoder's dimensions. The names are Hugging Face's for GPT-2.
struct ModelConfig {
  std::string preset;  ///< the preset it came from, empty if it was given as an object
  std::string model_type = "gpt2-from-scratch";
  std::int64_t vocab_size = 50257;  ///< V
  std::int64_t n_positions = 1024;  ///< longest sequence
  std::int64_t n_embd = 768;        ///< C
  std::int64_t n_head = 12;         ///< NH
  std::int64_t n_layer = 12;        ///< L

  // What only Hugging Face's families have (src/models/hf/); the model from scratch leaves all of it as it is here.
  std::int64_t n_kv_head = 0;       ///< key and value heads
  std::int64_t head_dim = 0;        ///< width of a head
  std::int64_t n_inner = 0;         ///< width of the MLP
  std::int64_t rotary_dim = 0;      ///< rotated part of a head
  std::int64_t word_embed_dim = 0;  ///< width of the token embedding, where it is projected to n_embd (OPT)
  std::int64_t sliding_window = 0;  ///< tokens that a layer with a window sees; 0 for no window
  std::vector<bool> sliding;        ///< layers with the window; empty: all of them
  std::int64_t n_expert = 0;
  std::int64_t n_expert_used = 0;  ///< experts that a token goes to
  bool norm_topk_prob = false;     ///< Qwen3-MoE: the weights of a token's experts are divided by their sum
  Activation activation = Activation::gelu;
  double embd_pdrop = 0;   ///< dropout of the embeddings
  double attn_pdrop = 0;   ///< of the attention probabilities
  double resid_pdrop = 0;  ///< of what a block adds to the residual stream
  bool tie_word_embeddings = true;
  bool attention_bias = false;
  bool mlp_bias = false;
  bool use_cache = true;
  bool rope_scaled = false;        ///< a rope_type that keeps more than the default one
  bool parallel_residual = false;  ///< attention and MLP read one input (GPT-NeoX, Falcon)
  bool pre_norm = true;            ///< OPT's do_layer_norm_before
  bool alibi = false;              ///< Falcon
  bool new_architecture = false;   ///< Falcon's new_decoder_architecture
  bool multi_query = false;        ///< Falcon's, which the new architecture ignores
  bool two_norms = false;          ///< Falcon: attention and MLP norm their one input each for itself
  bool softcap_attention = false;  ///< Gemma 2's attn_logit_softcapping
  bool softcap_logits = false;     ///< Gemma 2's final_logit_softcapping
  std::string assumed_from;        ///< the unknown model_type that is read as this one on request

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// What a card can do at most, as its vendor states it. 0 where that is not known.
struct Rates {
  std::int64_t fp32_gflops = 0;  ///< without tensor cores: PyTorch keeps TF32 off unless told otherwise
  std::int64_t bf16_gflops = 0;  ///< dense, with fp32 accumulation
  std::int64_t fp16_gflops = 0;
  std::int64_t bandwidth_mbs = 0;  ///< of its memory, 10^6 bytes a second

  friend bool operator==(const Rates&, const Rates&) = default;
};

/// A card. What the allocator may have is free_mib; total_mib only appears in the out-of-memory message.
struct Device {
  std::string preset;  ///< the preset it came from, empty if it was given as an object
  std::string name = "NVIDIA A40";
  std::int64_t total_mib = 46068;
  std::int64_t free_mib = 45440;  ///< once the CUDA context exists
  int compute_capability = 86;    ///< major * 10 + minor: 8.6 is 86; 0 where there is none (engines other than torch)
  int sm_count = 84;              ///< streaming multiprocessors; 0 where unknown (engines other than torch)
  bool total_assumed = false;     ///< total_mib was derived, not given nor catalogued
  bool free_assumed = false;      ///< free_mib was derived, not given nor catalogued
  /// For the time of a step; they change no byte.
  Rates rates = {.fp32_gflops = 37420, .bf16_gflops = 149700, .fp16_gflops = 149700, .bandwidth_mbs = 696000};

  friend bool operator==(const Device&, const Device&) = default;
};

/// What was measured on a card and no replay can know; `whatfits calibrate` makes it. What was free is in the Device.
struct Calibration {
  /// What a run held at its peak beyond its prediction. Device::free_mib is without it.
  std::int64_t extra_mib = 0;
  std::int64_t reserved_per_mille = 0;  ///< reserved for 1000 allocated, for the closed form; 0: the published ratio
  std::string from;                     ///< where it was measured, in words

  friend bool operator==(const Calibration&, const Calibration&) = default;
};

/// PYTORCH_CUDA_ALLOC_CONF, as far as it is replayed.
struct AllocatorConfig {
  bool expandable_segments = false;
  std::int64_t max_split_size_mib = 0;        ///< 0 for no limit
  std::int64_t roundup_power2_divisions = 0;  ///< 0 for none
  double garbage_collection_threshold = 0;    ///< 0 for none

  friend bool operator==(const AllocatorConfig&, const AllocatorConfig&) = default;
};

/// How the training loop is written, where people differ.
struct Script {
  std::int64_t warmup_matmul = 8;  ///< an N x N matmul before anything else; 0 for none

  // Hugging Face's models only.
  enum class Outputs : std::uint8_t { keep, loss_only, loss_detached };
  enum class AttentionMask : std::uint8_t { none, ones, padded };
  enum class Loss : std::uint8_t { model, outside, v4, v4_no_upcast };
  Outputs outputs = Outputs::keep;                     ///< what of the model's result the loop keeps
  AttentionMask attention_mask = AttentionMask::none;  ///< what is passed as attention_mask
  std::optional<bool> use_cache;                       ///< model.config.use_cache; empty: the config's own
  bool zero_grad_at_begin = false;                     ///< zero_grad before forward, not after the step
  Loss loss = Loss::model;                             ///< who computes it
  bool data_once = false;                              ///< one batch made before the first step

  friend bool operator==(const Script&, const Script&) = default;
};

/// Low-rank adapters beside frozen linear layers, computed as PEFT does, with scaling 2.
struct Lora {
  std::int64_t rank = 0;
  std::vector<std::string> targets;  ///< last parts of module names
  double dropout = 0;
  bool base_dtype = false;  ///< adapters in the base's type, not in fp32
  bool nf4 = false;         ///< QLoRA: the linear layers of the base but the head in 4 bits
  bool prepare = true;      ///< with that: PEFT's prepare_model_for_kbit_training, what is not quantised in fp32

  friend bool operator==(const Lora&, const Lora&) = default;
};

/// Which parameters of the model want gradients, adapters apart.
struct Trainable {
  enum class What : std::uint8_t { all, all_but_embeddings, last } what = What::all;
  std::int64_t blocks = 0;  ///< of `last`

  friend bool operator==(const Trainable&, const Trainable&) = default;
};

/// Several cards, of which one rank is replayed: the one with the most.
struct Parallel {
  enum class Strategy : std::uint8_t {
    ddp,    ///< torch.nn.parallel.DistributedDataParallel
    fsdp,   ///< torch.distributed.fsdp.fully_shard (FSDP2) on each block and on the model
    zero1,  ///< ddp with torch.distributed.optim.ZeroRedundancyOptimizer: optimizer state in parts
    zero2,  ///< fsdp with reshard_after_forward=False: gradients and optimizer state in shards
    zero3,  ///< fsdp by its other name: parameters in shards as well
  } strategy = Strategy::ddp;
  std::int64_t gpus = 2;    ///< ranks, one card each
  std::int64_t tensor = 1;  ///< ranks that share each matrix (parallelize_module): 1, or all of them

  /// Whether parameters are cut by fully_shard.
  bool fully_sharded() const { return strategy != Strategy::ddp && strategy != Strategy::zero1; }

  friend bool operator==(const Parallel&, const Parallel&) = default;
};

struct Config {
  ModelConfig model;
  std::int64_t batch = 1;       ///< B, sequences per micro-batch
  std::int64_t seq_len = 1024;  ///< T, tokens per sequence
  Precision precision = Precision::fp32;
  Attention attention = Attention::eager;
  Optimizer optimizer = Optimizer::adamw;
  Checkpointing checkpointing = Checkpointing::none;
  Loss loss = Loss::standard;
  std::int64_t loss_chunks = 8;        ///< of Loss::chunked: parts that the tokens of a micro-batch are cut in
  std::int64_t grad_accumulation = 1;  ///< micro-batches per optimizer step
  bool clip_grad_norm = false;
  ZeroGrad zero_grad = ZeroGrad::set_to_none;
  std::optional<Lora> lora;
  Trainable trainable;
  std::optional<double> dropout;     ///< in place of all of the model's own probabilities
  std::optional<Parallel> parallel;  ///< empty: one card
  AllocatorConfig allocator;
  Engine engine = Engine::torch;
  std::string torch = "2.6";          ///< PyTorch version whose behaviour is replayed
  std::string transformers = "5.12";  ///< Transformers version whose code is replayed; echoed only, so far
  Device device;
  std::optional<Calibration> calibration;
  std::int64_t steps = 3;
  Script script;

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace whatfits
