// What the optimizers' files share: tensors that remember something of a parameter.
#pragma once

#include "torch/tensor.h"

namespace whatfits::torch {

/// State of the parameter's own shape, strides and type, not yet filled; named after it and of its block, as all state is.
Tensor state_like(const Tensor& parameter, OpKind op, const char* what);
/// State of another shape or type, filled.
Tensor filled_state(const Tensor& parameter, const Shape& shape, DType dtype, OpKind op, const char* what);
/// A temporary of the tensor's shape, strides and type.
Tensor temporary_like(const Tensor& x, OpKind op, const char* label);

}  // namespace whatfits::torch
