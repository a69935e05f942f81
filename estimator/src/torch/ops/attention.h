#pragma once

#include "torch/ops.h"
#include "torch/tensor.h"

namespace whatfits::torch {

/// Attention out of plain operators, in float32 whatever comes in (_scaled_dot_product_attention_math). `bias` may be undefined.
Tensor math_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const SdpaCall& call);

}  // namespace whatfits::torch
