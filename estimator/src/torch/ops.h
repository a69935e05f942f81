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
std::array<Tensor, 3> split3(const Tensor& x, int dim, const std::array<Dim, 3>& widths);
std::vector<Tensor> chunk(const Tensor& x,
                          std::int64_t count);  ///< x.chunk(count): parts of ceil(rows / count) rows, the last what is left
Tensor unsqueeze(const Tensor& x, int dim);
Tensor expand(const Tensor& x, const Shape& shape);  ///< of the same rank: dimensions of 1 are repeated

// index.cpp: parts of tensors, and tensors of parts
/// x[..., start : start + length, ...]; a node and, in backward, zeros of the whole, even where it takes everything.
Tensor narrow(const Tensor& x, int dim, std::int64_t start, Dim length);
Tensor narrow(const Tensor& x, int dim, std::int64_t start, Dim length, std::int64_t step);  ///< every `step`th
/// x[..., :length, ...]; only an alias where that is all of it: an end that is written out is compared, `:` alone is not.
Tensor narrow_first(const Tensor& x, int dim, Dim length);
/// x[:, :, ...]: slices of the first `count` dimensions that take everything, nodes like any other.
Tensor full_slices(const Tensor& x, int count);
/// torch.stack((a, b), dim=-1)
Tensor stack_last(const Tensor& a, const Tensor& b);
/// x[..., indices, ...] with a tensor of indices: a copy; in backward zeros of the whole, into which the gradient is added.
Tensor index(const Tensor& x, int dim, const Tensor& indices);
Tensor index(const Tensor& x, int dim);  ///< x[..., [i], ...]: the list becomes a tensor of one index
/// x[..., index, ...], without the dimension; in backward zeros of the whole.
Tensor select(const Tensor& x, int dim, std::int64_t index);
Tensor cat(std::initializer_list<const Tensor*> parts, int dim);
Tensor cat(std::initializer_list<const Tensor*> parts, int dim, DType dtype);  ///< of at least this type
Tensor pad_right(const Tensor& x, std::int64_t count);                         ///< of the last dimension, outside graphs

// elementwise.cpp
Tensor add(const Tensor& a, const Tensor& b);  ///< broadcasts, promotes 16-bit to float32
void add_(const Tensor& a, const Tensor& b);   ///< in place, outside graphs
Tensor div(const Tensor& x, double divisor);
/// In place: x += other, x *= factor, x /= divisor; `x` is bound to the result.
void add_to(Tensor& x, const Tensor& other);
void mul_(Tensor& x, double factor);
void div_(Tensor& x, double divisor);
Tensor mul(const Tensor& x, double factor);
Tensor mul(const Tensor& a, const Tensor& b);  ///< broadcasts and promotes as add
Tensor add(const Tensor& x, double number);
Tensor neg(const Tensor& x);
Tensor cos(const Tensor& x);  ///< outside graphs
Tensor sin(const Tensor& x);  ///< outside graphs
Tensor tanh(const Tensor& x);
Tensor relu(const Tensor& x);
Tensor silu(const Tensor& x);
Tensor pow(const Tensor& x, double exponent);
Tensor rsqrt(const Tensor& x);
Tensor dropout(const Tensor& x, double probability);                      ///< in training; the same tensor where the probability is 0
Tensor compare(const Tensor& a, const Tensor& b);                         ///< <=, >, ==, &: bool, broadcasts
Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b);  ///< outside graphs
Tensor eq(const Tensor& x, double value);                                 ///< bool
Tensor masked_fill(const Tensor& x, const Tensor& mask, double value);
Tensor gelu(const Tensor& x);
Tensor to(const Tensor& x, DType dtype);  ///< the same tensor when it has that type
Tensor clone(const Tensor& x);

// reduce.cpp
Tensor sum_to(const Tensor& x, const Shape& shape);  ///< undoes a broadcast
Tensor mean_last(const Tensor& x);                   ///< x.mean(-1, keepdim=True)

// matmul.cpp
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias);  ///< `bias` may be undefined
Tensor addmm(const Tensor& bias, const Tensor& a, const Tensor& b);
/// Of 3-D or 4-D tensors batch by batch, where `b` may have one head for all of `a`; with a matrix for `b`, one product of all rows.
Tensor matmul(const Tensor& a, const Tensor& b);
Tensor mm(const Tensor& a, const Tensor& b);
Tensor bmm(const Tensor& a, const Tensor& b);
/// input + alpha * a @ b, with an alpha that is not 1; `input` broadcasts and is outside graphs.
Tensor baddbmm(const Tensor& input, const Tensor& a, const Tensor& b);

// norm.cpp
Tensor layer_norm(const Tensor& x, const Tensor& weight, const Tensor& bias);

// softmax.cpp
Tensor softmax(const Tensor& x);               ///< over the last dimension
Tensor softmax(const Tensor& x, DType dtype);  ///< the same with softmax(..., dtype=)

// loss.cpp
Tensor cross_entropy(const Tensor& logits, const Tensor& target);  ///< [N, V], [N] -> mean

// fused_loss.cpp
/// mean of cross_entropy(x @ weight.T, target), chunk by chunk, with both gradients made in forward: [N, C], [V, C], [N].
Tensor fused_linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target);

// embedding.cpp
Tensor embedding(const Tensor& weight, const Tensor& indices);

// attention.cpp
enum class SdpaBackend : std::uint8_t { automatic, math, efficient, flash };
struct SdpaCall {
  SdpaBackend backend = SdpaBackend::automatic;
  double dropout = 0;
  bool causal = true;
  bool grouped = false;  ///< enable_gqa: k and v may have fewer heads
};
/// q: [B, NH, T, D]; k, v: the same, or with fewer heads. `mask` is boolean, or added to the scores,
/// or undefined.
Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& mask, const SdpaCall& call);
/// flash_attn_func of the package flash-attn, causal; [B, heads, T, D] like the others, though it is called with T and heads swapped.
Tensor flash_attention_package(const Tensor& q, const Tensor& k, const Tensor& v, double dropout);
/// Causal, without mask or dropout.
inline Tensor scaled_dot_product_attention(const Tensor& q, const Tensor& k, const Tensor& v, SdpaBackend backend) {
  const Tensor none;
  return scaled_dot_product_attention(q, k, v, none, SdpaCall{.backend = backend});
}

}  // namespace whatfits::torch
