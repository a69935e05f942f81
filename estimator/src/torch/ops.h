// PyTorch's operators as far as memory sees them: outputs, temporaries, what backward keeps, and in which order.
//
// Each is defined once: its shape rule, its saved tensors, its temporaries forward and back, and its kernel. An operator of an
// undefined tensor is undefined (see Torch::stopped). Sources: aten/src/ATen/native and tools/autograd/derivatives.yaml of
// PyTorch 2.6, confirmed by traces of it (fixtures/torch/traces).
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "torch/tensor.h"
#include "torch/torch.h"

namespace whatfits::torch {

// creation.cpp
Tensor randint(Torch& torch, const Shape& shape);  ///< int64
Tensor arange(Torch& torch, Dim n);                ///< int64
Tensor full(Torch& torch, const Shape& shape, DType dtype, double value);
Tensor ones_like(const Tensor& x);
Tensor zeros_like(const Tensor& x);

// view.cpp: no memory, but nodes in the graph
Tensor view(const Tensor& x, const Shape& shape);     ///< strides must allow it
Tensor reshape(const Tensor& x, const Shape& shape);  ///< copies where strides do not allow a view
Tensor transpose(const Tensor& x, int a, int b);
Tensor t(const Tensor& x);                               ///< of a matrix
Tensor contiguous(const Tensor& x);                      ///< copies if needed
Tensor slice(const Tensor& x, int dim, Dim length);      ///< the first `length`; of tensors outside graphs
std::array<Tensor, 3> split3(const Tensor& x, int dim);  ///< three equal parts

// elementwise.cpp
Tensor add(const Tensor& a, const Tensor& b);  ///< broadcasts, promotes 16-bit to float32
void add_(const Tensor& a, const Tensor& b);   ///< in place, outside graphs
Tensor div(const Tensor& x, double divisor);
Tensor mul(const Tensor& x, double factor);
Tensor mul(const Tensor& x, const Tensor& scale);  ///< by a one-element tensor outside the graph
Tensor eq(const Tensor& x, double value);          ///< bool
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
Tensor gelu(const Tensor& x);
Tensor to(const Tensor& x, DType dtype);  ///< the same tensor when it has that type
Tensor clone(const Tensor& x);

// reduce.cpp
Tensor sum_to(const Tensor& x, const Shape& shape);  ///< undoes a broadcast

// matmul.cpp
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);  ///< `bias` may be undefined
Tensor matmul(const Tensor& a, const Tensor& b);                           ///< of 4-D tensors
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);

// norm.cpp
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias);

// softmax.cpp
Tensor softmax(const Tensor& x);  ///< over the last dimension

// loss.cpp
Tensor cross_entropy(const Tensor& logits, const Tensor& target);  ///< [N, V], [N] -> mean

// embedding.cpp
Tensor embedding(const Tensor& weight, const Tensor& indices);

// attention.cpp
enum class SdpaBackend : std::uint8_t { automatic, math, efficient, flash };
/// Causal, without mask or dropout. q, k, v: [B, NH, T, D].
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, SdpaBackend backend);

}  // namespace whatfits::torch
