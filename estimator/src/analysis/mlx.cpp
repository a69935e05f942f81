// Training with plain modules of Apple's MLX: the general account's lines, with attention as MLX runs it.
// Sources: fixtures/published/general-account.json for the lines and the run measured beside them; for the fused attention, whose
// backward makes scores and probabilities one layer at a time, the three measured peaks of mlx.fast.scaled_dot_product_attention in
// fixtures/published/others.json (mlx-sdpa-backward-*): 3 matrices of scores, a causal mask of bytes and one of values, and 9 tensors
// of B·T·C, of which a layer's saved ones are 4.
#include <string>

#include "analysis/accounts.h"
#include "analysis/saturating.h"
#include "config/preset_lookup.h"
#include "whatfits/closed_forms.h"

namespace whatfits {

Account mlx_account(const Config& config) {
  Account account;
  Products products(config);
  const bool checkpoints = config.checkpointing == Checkpointing::full;
  const bool fused = config.attention != Attention::eager;
  const Bytes s = config.precision == Precision::fp32 ? 4 : 2;
  // The account's standard count has a head of its own.
  products.parameters = account.parameters =
      saturating::subtract(general_account(config).parameters, config.model.tie_word_embeddings ? products.elements("V·C") : 0);
  const auto line = [&](const char* label, Category category, const char* formula, Bytes each) {
    products.add(account, label, category, formula, each);
  };
  line("weights", Category::parameters, "N", s);
  line("gradients", Category::gradients, "N", s);
  if (config.optimizer != Optimizer::sgd) line("optimizer state, first moment", Category::optimizer_state, "N", s);
  if (config.optimizer == Optimizer::adam || config.optimizer == Optimizer::adamw)
    line("optimizer state, second moment", Category::optimizer_state, "N", s);
  line("embedding", Category::activations, "B·T·C", s);
  if (checkpoints) line("inputs of checkpoints", Category::activations, "L·B·T·C", s);
  line(checkpoints ? "one layer, linear in T" : "layers, linear in T", Category::activations, checkpoints ? "16·B·T·C" : "16·L·B·T·C", s);
  if (fused) {
    line("attention backward, one layer at a time", Category::attention, "3·B·NH·T²", s);
    line("causal mask", Category::attention, "T²", 1 + s);
    line("gradients around it", Category::temporaries, "5·B·T·C", s);
  } else {
    line(checkpoints ? "one layer, quadratic in T" : "layers, quadratic in T", Category::attention,
         checkpoints ? "2·B·NH·T²" : "2·L·B·NH·T²", s);
  }
  line("logits", Category::logits, "B·T·V", s);
  account.reserved = account.allocated;
  account.assumptions = {
      "MLX, by a closed form of what a step keeps (get_peak_memory); nothing replayed, and freed buffers in MLX's cache not counted",
      "of a run measured on an M2 (40 million parameters, fp32, 2,048 tokens, explicit attention: 3.75 GB) it says 4.07 GB; its source "
      "puts "
      "it within 10 %",
      fused ? "attention is mlx.fast.scaled_dot_product_attention, as measured with MLX 0.31.2"
            : "attention is explicit, B·NH·T² values twice"};
  // A machine that shares its memory with all else that runs.
  const std::optional<DevicePreset> preset = config::find_device(config.device.preset);
  if (preset && !preset->budgets.empty()) {
    std::string words = "of this machine's memory, ";
    for (const Bytes budget : preset->budgets) {
      const Bytes hundredths = budget / 10'000'000;
      words += std::to_string(hundredths / 100) + "." + std::to_string(hundredths / 10 % 10) + std::to_string(hundredths % 10) + " GB ";
      words += account.allocated <= budget ? "hold it" : "do not hold it";
      if (budget != preset->budgets.back()) words += ", ";
    }
    account.assumptions.push_back(words);
  }
  return account;
}

}  // namespace whatfits
