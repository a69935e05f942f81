#include "models/hf/families.h"

namespace whatfits::hf {

namespace {

struct Family {
  std::string_view model_type;
  std::unique_ptr<CausalLM> (*make)(torch::Torch& torch, const Config& config);
};

constexpr Family kFamilies[] = {
    {"gpt2", make_gpt2},         {"llama", make_llama}, {"mistral", make_llama}, {"qwen2", make_llama}, {"qwen3", make_llama},
    {"gpt_neox", make_gpt_neox}, {"opt", make_opt},     {"gemma", make_gemma},   {"gemma2", make_gemma}, {"olmo", make_olmo},
    {"phi", make_phi},
};

}  // namespace

const std::vector<std::string_view>& model_types() {
  static const std::vector<std::string_view> types = [] {
    std::vector<std::string_view> names;
    for (const Family& family : kFamilies) names.push_back(family.model_type);
    return names;
  }();
  return types;
}

std::unique_ptr<CausalLM> make_model(torch::Torch& torch, const Config& config) {
  for (const Family& family : kFamilies) {
    if (family.model_type == config.model.model_type) return family.make(torch, config);
  }
  return nullptr;
}

}  // namespace whatfits::hf
