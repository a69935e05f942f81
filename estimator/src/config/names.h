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
  static const Words words{{"fp32", "bf16", "amp-bf16", "amp-fp16"}, {"fp16"}};
  return words;
}
inline const Words& attention_words() {
  static const Words words{{"eager", "sdpa", "sdpa-math", "sdpa-efficient", "sdpa-flash"}, {"flash-attention-2"}};
  return words;
}
inline const Words& optimizer_words() {
  static const Words words{{"adamw", "adamw-fused", "adamw-for-loop", "sgd", "sgd-momentum"},
                           {"adam", "adam-amsgrad", "sgd-momentum-fused", "adagrad", "rmsprop", "adafactor", "adafactor-foreach",
                            "adafactor-transformers", "adamw-8bit", "adamw-8bit-paged", "muon", "lion", "none"}};
  return words;
}
inline const Words& checkpointing_words() {
  static const Words words{{"none", "full"}, {"full-reentrant", "selective"}};
  return words;
}
inline const Words& zero_grad_words() {
  static const Words words{{"set-to-none", "zero-fill"}, {}};
  return words;
}
inline const Words& engine_words() {
  static const Words words{{"torch", "formula"}, {"llm.c", "mlx"}};
  return words;
}

/// A key that has one value so far, which request_json writes out.
struct FixedWord {
  const char* key;
  const char* value;
  std::vector<std::string_view> later;
};

inline const std::vector<FixedWord>& fixed_script_words() {
  static const std::vector<FixedWord> words{
      {"outputs", "keep", {"loss-only", "loss-detached"}},
      {"attention_mask", "none", {"ones", "padded"}},
      {"zero_grad_at", "end", {"begin"}},
      {"loss", "model", {"outside", "v4"}},
      {"data", "each-step", {"once"}},
  };
  return words;
}

}  // namespace whatfits::config
