// One reduction kernel with its staging buffers, for the operators that sum on the way.
#pragma once

#include "torch/kernel_sizes.h"
#include "torch/tensor.h"

namespace whatfits::torch {

/// Sums `x` into `out`: takes the buffers of each launch, runs it, gives them back.
void run_sum(const Tensor& x, const Tensor& out, const Reduction& reduction);

}  // namespace whatfits::torch
