// The request's words. `now[i]` is the word of the enum's value i; `later` are words of the contract that this version lacks.
#pragma once

#include <string_view>
#include <vector>

namespace whatfits::config {

struct Words {
  std::vector<std::string_view> now;
  std::vector<std::string_view> later;
};

inline const Words& precision_words() {
  static const Words words{{"fp32", "bf16", "amp-bf16", "amp-fp16", "fp16"}, {}};
  return words;
}
inline const Words& attention_words() {
  static const Words words{{"eager", "sdpa", "sdpa-math", "sdpa-efficient", "sdpa-flash", "flash-attention-2"}, {}};
  return words;
}
inline const Words& optimizer_words() {
  static const Words words{
      {"adamw", "adamw-fused", "adamw-for-loop", "sgd", "sgd-momentum", "adam", "adam-amsgrad", "sgd-momentum-fused", "adagrad", "rmsprop",
       "adafactor", "adafactor-foreach", "adafactor-transformers", "none", "adamw-8bit", "adamw-8bit-paged", "muon", "lion"},
      {}};
  return words;
}
inline const Words& checkpointing_words() {
  static const Words words{{"none", "full", "full-reentrant", "selective"}, {}};
  return words;
}
inline const Words& zero_grad_words() {
  static const Words words{{"set-to-none", "zero-fill"}, {}};
  return words;
}
inline const Words& engine_words() {
  static const Words words{{"torch", "formula", "llm.c", "mlx"}, {}};
  return words;
}

inline const Words& strategy_words() {
  static const Words words{{"ddp", "fsdp", "zero1", "zero2", "zero3"}, {}};
  return words;
}

inline const Words& outputs_words() {
  static const Words words{{"keep", "loss-only", "loss-detached"}, {}};
  return words;
}
inline const Words& attention_mask_words() {
  static const Words words{{"none", "ones", "padded"}, {}};
  return words;
}
inline const Words& zero_grad_at_words() {
  static const Words words{{"end", "begin"}, {}};
  return words;
}
inline const Words& script_loss_words() {
  static const Words words{{"model", "outside", "v4", "v4-no-upcast"}, {}};
  return words;
}
inline const Words& data_words() {
  static const Words words{{"each-step", "once"}, {}};
  return words;
}

inline const Words& loss_words() {
  static const Words words{{"default", "fused-linear", "chunked"}, {}};
  return words;
}

}  // namespace whatfits::config
