#pragma once

#include "torch/tensor.h"

namespace whatfits::torch {

/// Attention out of plain operators, causal, in float32 whatever comes in (_scaled_dot_product_attention_math).
Tensor math_attention(const Tensor& q, const Tensor& k, const Tensor& v);

}  // namespace whatfits::torch
