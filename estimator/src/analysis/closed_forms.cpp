// The general account. Coefficients and their source: fixtures/published/general-account.json.
#include "whatfits/closed_forms.h"

#include <utility>

#include "analysis/saturating.h"

namespace whatfits {
namespace {

using saturating::dimension;
using saturating::product;

/// Bytes per parameter.
struct StateSizes {
  Bytes weights, gradients, master, optimizer;
};

/// How many moments an optimizer keeps per parameter; the account itself only knows Adam's two.
Bytes moments(Optimizer optimizer) {
  if (optimizer == Optimizer::sgd) return 0;
  if (optimizer == Optimizer::sgd_momentum || optimizer == Optimizer::lion) return 1;
  return 2;
}

StateSizes state_sizes(const Config& config) {
  const Bytes kept = moments(config.optimizer);
  if (config.precision == Precision::fp32) return {4, 4, 0, 4 * kept};
  // The article's arrangement, 16-bit weights and gradients over an fp32 master. Autocast keeps fp32 weights and
  // gradients and no master instead: the same 16 bytes with Adam.
  if (config.precision == Precision::amp_bf16 || config.precision == Precision::amp_fp16) return {2, 2, 4, 4 * kept};
  return {2, 2, 0, 2 * kept};
}

/// 2·V·C + 12·L·C²: an embedding and an untied head, and blocks without biases and norms.
std::uint64_t standard_parameters(const ModelConfig& model) {
  const std::uint64_t C = dimension(model.n_embd);
  return saturating::add(product({2, dimension(model.vocab_size), C}), product({12, dimension(model.n_layer), C, C}));
}

std::vector<std::string> general_notes(const Config& config) {
  std::vector<std::string> notes;
  if (config.precision != Precision::fp32 && config.precision != Precision::amp_bf16 && config.precision != Precision::amp_fp16)
    notes.emplace_back("the account has no case of training wholly in 16 bits: 2 bytes are counted for each weight, gradient and moment");
  if (moments(config.optimizer) != 2)
    notes.emplace_back("the account's optimizer is Adam: here " + std::to_string(moments(config.optimizer)) +
                       " moments a parameter are counted");
  if (config.checkpointing != Checkpointing::none) notes.emplace_back("checkpointing is left out: every activation is counted as saved");
  if (config.attention != Attention::eager)
    notes.emplace_back("attention is counted as explicit: score and probability matrices of B·NH·T² values each");
  return notes;
}

}  // namespace

GeneralAccount general_account(const Config& config, std::uint64_t parameters) {
  const std::uint64_t B = dimension(config.batch), T = dimension(config.seq_len);
  const std::uint64_t C = dimension(config.model.n_embd), NH = dimension(config.model.n_head);
  const std::uint64_t L = dimension(config.model.n_layer), V = dimension(config.model.vocab_size);

  GeneralAccount account;
  account.batch = B;
  account.bytes_per_activation = config.precision == Precision::fp32 ? 4 : 2;
  account.parameters = parameters != 0 ? parameters : standard_parameters(config.model);
  account.parameters_formula = parameters != 0 ? "given" : "2·V·C + 12·L·C²";
  account.notes = general_notes(config);

  const auto line = [&account](Bytes& subtotal, const char* label, const char* category, std::string values, Bytes each, Bytes bytes) {
    account.lines.push_back({label, category, std::move(values) + "·" + std::to_string(each), bytes});
    subtotal = saturating::add(subtotal, bytes);
  };
  const auto state = [&](const char* label, const char* category, Bytes each) {
    line(account.state, label, category, "N", each, product({account.parameters, each}));
  };
  const StateSizes sizes = state_sizes(config);
  state("weights", "parameters", sizes.weights);
  state("gradients", "gradients", sizes.gradients);
  state("master weights", "optimizer_state", sizes.master);
  state("optimizer state", "optimizer_state", sizes.optimizer);

  const Bytes s = account.bytes_per_activation;
  const auto saved = [&](const char* label, const char* category, const char* values, Bytes bytes) {
    line(account.activations, label, category, values, s, bytes);
  };
  saved("embedding", "activations", "B·T·C", product({B, T, C, s}));
  // Two values of B·T·C from the norms, five from attention, nine from the feed-forward layer.
  saved("layers, linear in T", "activations", "16·L·B·T·C", product({16, L, B, T, C, s}));
  // Scores and probabilities.
  saved("layers, quadratic in T", "attention", "2·L·B·NH·T²", product({2, L, B, NH, T, T, s}));
  saved("logits", "logits", "B·T·V", product({B, T, V, s}));
  account.total = saturating::add(account.state, account.activations);
  return account;
}

std::int64_t largest_batch(const GeneralAccount& account, Bytes free) {
  if (account.batch == 0) return 0;
  // A saturated sum says nothing about one sequence: refuse rather than divide it.
  if (account.activations == saturating::kMax) return 0;
  return saturating::largest(free, account.state, account.activations / account.batch);
}

}  // namespace whatfits
