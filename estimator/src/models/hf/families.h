// One function for each file of this folder that holds a family; families.cpp says which model_type is which.
#pragma once

#include <memory>
#include <string_view>
#include <vector>

#include "models/hf/causal_lm.h"

namespace whatfits::hf {

std::unique_ptr<CausalLM> make_gpt2(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_gpt_neox(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_opt(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_bloom(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_gemma(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_mixtral(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_olmo(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_phi(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_phi3(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_gpt_bigcode(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_gptj(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_falcon(torch::Torch& torch, const Config& config);
std::unique_ptr<CausalLM> make_llama(torch::Torch& torch, const Config& config);

/// The model types of Hugging Face that are replayed.
const std::vector<std::string_view>& model_types();

/// Last parts of the names of a family's linear layers, which an adapter can stand beside.
std::vector<std::string_view> linear_names(std::string_view model_type);

}  // namespace whatfits::hf
