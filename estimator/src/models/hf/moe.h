// Mixtures of experts: all experts' weights in two tensors, tokens sorted by expert and one product for each of them.
//
// Source: integrations/moe.py (grouped_mm_experts_forward) of Transformers 5.12. Nothing here depends on the routing.
#pragma once

#include <string>

#include "models/hf/modules.h"
#include "torch/ops/experts.h"

namespace whatfits::hf {

struct Experts {
  Tensor gate_up_proj;  ///< [experts, 2 * inner, C]
  Tensor down_proj;     ///< [experts, C, inner]
  Activation activation = Activation::silu;

  /// [tokens, C] -> [tokens, C]; `top` is each token's choice and the weights of it.
  Tensor operator()(const Tensor& hidden, const torch::TopK& top) const;
};

Experts make_experts(Builder& build, const std::string& name, Dim experts, Dim width, Dim inner, Activation activation);

}  // namespace whatfits::hf
