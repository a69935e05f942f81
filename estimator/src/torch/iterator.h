// What TensorIterator decides for elementwise operators: the shape, the type and the memory order of the result.
//
// Source: aten/src/ATen/TensorIterator.cpp (reorder_dimensions) and c10/core/ScalarType of PyTorch 2.6.
#pragma once

#include <initializer_list>

#include "torch/tensor.h"

namespace whatfits::torch {

Shape broadcast_shape(const Shape& a, const Shape& b);

/// Strides of what is made from operands that broadcast to `shape`: packed, in the order of dimensions of the first operand that tells
/// two of them apart. A dimension that an operand repeats (stride 0) says nothing.
Strides elementwise_strides(const Shape& shape, std::initializer_list<const Tensor*> operands);

/// The type of a + b: of two different 16-bit or 32-bit floats float32; a tensor without dimensions gives way within its kind.
DType promoted(const Tensor& a, const Tensor& b);

}  // namespace whatfits::torch
