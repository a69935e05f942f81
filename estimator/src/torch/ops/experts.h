// What mixtures of experts add: a router's choice, rows gathered and put back, one product per expert.
//
// Sources: Transformers 5.12's integrations/moe.py (grouped_mm with the fallback that PyTorch 2.6 takes) and PyTorch 2.6's
// TopKBackward, IndexBackward, DivBackward and index_put_. Nothing here depends on the routing.
#pragma once

#include <array>

#include "torch/ops.h"

namespace whatfits::torch {

struct TopK {
  Tensor values;
  Tensor indices;  ///< int64
};
TopK topk(const Tensor& x, Dim k);  ///< over the last dimension

/// x /= x.sum(-1, keepdim=True), in place; `x` is bound to the result.
void divide_by_sum_(Tensor& x);

/// In place; `x` is bound to the result.
void masked_fill_(Tensor& x, const Tensor& mask);

std::array<Tensor, 2> chunk2(const Tensor& x);  ///< halves of the last dimension

/// [S, I] x [E, O, I] -> [S, O], each row with the matrix of its expert (grouped_mm_fallback, a Python function of autograd).
Tensor grouped_mm(const Tensor& x, const Tensor& weight, const Tensor& offsets);

/// x.view(tokens, k, C).sum(dim=1)
Tensor sum_groups(const Tensor& x, Dim tokens, Dim k);

}  // namespace whatfits::torch
