// What is asked: one training run, in plain structs with defaults.
// Keys, values and defaults of the JSON form are those of the request in README.md; validation is in request.h.
#pragma once

#include <cstdint>
#include <string>

#include "whatfits/bytes.h"

namespace whatfits {

enum class Precision : std::uint8_t { fp32, bf16, amp_bf16, amp_fp16 };
enum class Attention : std::uint8_t { eager, sdpa, sdpa_math, sdpa_efficient, sdpa_flash };
enum class Optimizer : std::uint8_t { adamw, adamw_fused, adamw_for_loop, sgd, sgd_momentum };
enum class Checkpointing : std::uint8_t { none, full };
enum class ZeroGrad : std::uint8_t { set_to_none, zero_fill };
enum class Engine : std::uint8_t { torch, formula };

/// A decoder's dimensions. The names are Hugging Face's for GPT-2.
struct ModelConfig {
  std::string preset;  ///< the preset it came from, empty if it was given as an object
  std::string model_type = "gpt2-from-scratch";
  std::int64_t vocab_size = 50257;  ///< V
  std::int64_t n_positions = 1024;  ///< longest sequence
  std::int64_t n_embd = 768;        ///< C
  std::int64_t n_head = 12;         ///< NH
  std::int64_t n_layer = 12;        ///< L

  friend bool operator==(const ModelConfig&, const ModelConfig&) = default;
};

/// A card. What the allocator may have is free_mib; total_mib only appears in the out-of-memory message.
struct Device {
  std::string preset;  ///< the preset it came from, empty if it was given as an object
  std::string name = "NVIDIA A40";
  std::int64_t total_mib = 46068;
  std::int64_t free_mib = 45440;  ///< once the CUDA context exists
  int compute_capability = 86;    ///< major * 10 + minor: 8.6 is 86; 0 where there is none (engine formula only)
  int sm_count = 84;              ///< streaming multiprocessors; 0 where unknown (engine formula only)
  bool total_assumed = false;     ///< total_mib was derived, not given nor catalogued
  bool free_assumed = false;      ///< free_mib was derived, not given nor catalogued

  friend bool operator==(const Device&, const Device&) = default;
};

/// PYTORCH_CUDA_ALLOC_CONF, as far as it is replayed.
struct AllocatorConfig {
  bool expandable_segments = false;

  friend bool operator==(const AllocatorConfig&, const AllocatorConfig&) = default;
};

/// How the training loop is written, where people differ.
struct Script {
  std::int64_t warmup_matmul = 8;  ///< an N x N matmul before anything else; 0 for none

  friend bool operator==(const Script&, const Script&) = default;
};

struct Config {
  ModelConfig model;
  std::int64_t batch = 1;       ///< B, sequences per micro-batch
  std::int64_t seq_len = 1024;  ///< T, tokens per sequence
  Precision precision = Precision::fp32;
  Attention attention = Attention::eager;
  Optimizer optimizer = Optimizer::adamw;
  Checkpointing checkpointing = Checkpointing::none;
  std::int64_t grad_accumulation = 1;  ///< micro-batches per optimizer step
  bool clip_grad_norm = false;
  ZeroGrad zero_grad = ZeroGrad::set_to_none;
  AllocatorConfig allocator;
  Engine engine = Engine::torch;
  std::string torch = "2.6";          ///< PyTorch version whose behaviour is replayed
  std::string transformers = "5.12";  ///< Transformers version whose code is replayed; echoed only, so far
  Device device;
  std::int64_t steps = 3;
  Script script;

  friend bool operator==(const Config&, const Config&) = default;
};

}  // namespace whatfits
