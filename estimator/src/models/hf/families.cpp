#include "models/hf/families.h"

namespace whatfits::hf {

namespace {

struct Family {
  std::string_view model_type;
  std::unique_ptr<CausalLM> (*make)(torch::Torch& torch, const Config& config);
  std::string_view linears;  ///< last parts of their names, one space between
};

constexpr std::string_view kLlama = "q_proj k_proj v_proj o_proj gate_proj up_proj down_proj";
constexpr std::string_view kAttention = "q_proj k_proj v_proj o_proj";
constexpr std::string_view kGpt2 = "c_attn c_proj c_fc";
constexpr std::string_view kNeoX = "query_key_value dense dense_h_to_4h dense_4h_to_h";
constexpr std::string_view kOpt = "k_proj v_proj q_proj out_proj fc1 fc2 project_in project_out";
constexpr std::string_view kGptJ = "k_proj v_proj q_proj out_proj fc_in fc_out";
constexpr std::string_view kPhi3 = "qkv_proj o_proj gate_up_proj down_proj";
constexpr std::string_view kPhi = "q_proj k_proj v_proj dense fc1 fc2";

constexpr Family kFamilies[] = {
    {"gpt2", make_gpt2, kGpt2},
    {"llama", make_llama, kLlama},
    {"mistral", make_llama, kLlama},
    {"qwen2", make_llama, kLlama},
    {"qwen3", make_llama, kLlama},
    {"gpt_neox", make_gpt_neox, kNeoX},
    {"opt", make_opt, kOpt},
    {"gemma", make_gemma, kLlama},
    {"gemma2", make_gemma, kLlama},
    {"olmo", make_olmo, kLlama},
    {"phi", make_phi, kPhi},
    {"mixtral", make_mixtral, kAttention},
    {"qwen3_moe", make_mixtral, kAttention},
    {"gptj", make_gptj, kGptJ},
    {"bloom", make_bloom, kNeoX},
    {"falcon", make_falcon, kNeoX},
    {"phi3", make_phi3, kPhi3},
    {"gpt_bigcode", make_gpt_bigcode, kGpt2},
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

std::vector<std::string_view> linear_names(std::string_view model_type) {
  for (const Family& family : kFamilies) {
    if (family.model_type != model_type) continue;
    std::vector<std::string_view> names;
    for (std::string_view rest = family.linears; !rest.empty();) {
      const std::size_t space = rest.find(' ');
      names.push_back(rest.substr(0, space));
      rest.remove_prefix(space == std::string_view::npos ? rest.size() : space + 1);
    }
    return names;
  }
  return {};
}

std::unique_ptr<CausalLM> make_model(torch::Torch& torch, const Config& config) {
  for (const Family& family : kFamilies) {
    if (family.model_type != config.model.model_type) continue;
    std::unique_ptr<CausalLM> model = family.make(torch, config);
    model->finish();
    return model;
  }
  return nullptr;
}

}  // namespace whatfits::hf
