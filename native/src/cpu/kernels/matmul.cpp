// Products of matrices: operands made fit for gemm(), which computes in float or double.
#include "cpu/kernels/memory.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {

/// A matrix in the type that is computed in, with strides of which one is 1.
template <class A>
struct Matrix {
  const A* data;
  std::int64_t row;
  std::int64_t col;
};

bool fits_gemm(std::int64_t rows, std::int64_t cols, std::int64_t row, std::int64_t col) {
  return (col == 1 && (row >= cols || rows == 1)) || (row == 1 && (col >= rows || cols == 1));
}

/// A block of the matrix at `v` (its last two dimensions), converted into `buffer` if need be. The buffer keeps the order in memory.
template <class A>
Matrix<A> take(const View& v, std::int64_t offset, std::int64_t rows, std::int64_t cols, A* buffer) {
  const std::int64_t row = v.stride(-2);
  const std::int64_t col = v.stride(-1);
  if (v.dtype == kTypeOf<A> && fits_gemm(rows, cols, row, col)) return {element<A>(v, offset), row, col};
  const bool by_column = row == 1 && col != 1;
  const std::int64_t lines = by_column ? cols : rows;
  const std::int64_t length = by_column ? rows : cols;
#pragma omp parallel for schedule(static) if (rows * cols >= kParallel)
  for (std::int64_t line = 0; line < lines; ++line) {
    A* const to = buffer + line * length;
    const A* const from = load<A>(v, offset + line * (by_column ? col : row), by_column ? row : col, length, to);
    if (from != to) __builtin_memcpy(to, from, static_cast<std::size_t>(length) * sizeof(A));
  }
  return by_column ? Matrix<A>{buffer, 1, length} : Matrix<A>{buffer, length, 1};
}

template <class A>
bool needs_buffer(const View& v) {
  return v.dtype != kTypeOf<A> || !fits_gemm(v.size(-2), v.size(-1), v.stride(-2), v.stride(-1));
}

/// out = a b (+ bias in each row). Conversions go block by block in all three directions, so that no copy of a whole operand is ever
/// needed: of the head's logits that would be as much again as the tensor.
template <class A>
void product(const View& a, std::int64_t a_at, const View& b, std::int64_t b_at, const View& out, std::int64_t out_at, const View* bias) {
  const std::int64_t m = a.size(-2);
  const std::int64_t k = a.size(-1);
  const std::int64_t n = b.size(-1);
  const bool direct = out.dtype == kTypeOf<A> && out.stride(-1) == 1;
  const bool whole = direct && !needs_buffer<A>(a) && !needs_buffer<A>(b);
  constexpr std::int64_t kSide = 2048;
  constexpr std::int64_t kDepth = 4096;
  const std::int64_t m_block = whole ? m : least(m, kSide);
  const std::int64_t n_block = whole ? n : least(n, kSide);
  const std::int64_t k_block = whole ? k : least(k, kDepth);
  Buffer<A> a_buffer(needs_buffer<A>(a) ? m_block * k_block : 0);
  Buffer<A> b_buffer(needs_buffer<A>(b) ? n_block * k_block : 0);
  Buffer<A> c_buffer(direct ? 0 : m_block * n_block);
  Buffer<A> bias_buffer(bias ? n : 0);
  const A* const bias_row = bias ? load<A>(*bias, 0, bias->stride(-1), n, bias_buffer) : nullptr;
  for (std::int64_t i = 0; i < m; i += m_block) {
    const std::int64_t rows = least(m_block, m - i);
    Matrix<A> left{};
    for (std::int64_t j = 0; j < n; j += n_block) {
      const std::int64_t cols = least(n_block, n - j);
      const std::int64_t c_at = out_at + i * out.stride(-2) + j * out.stride(-1);
      A* const c = direct ? element<A>(out, c_at) : c_buffer.get();
      const std::int64_t c_row = direct ? out.stride(-2) : cols;
      if (bias) {
#pragma omp parallel for schedule(static) if (rows * cols >= kParallel)
        for (std::int64_t row = 0; row < rows; ++row)
          __builtin_memcpy(c + row * c_row, bias_row + j, static_cast<std::size_t>(cols) * sizeof(A));
      }
      for (std::int64_t l = 0; l < k; l += k_block) {
        const std::int64_t depth = least(k_block, k - l);
        if (j == 0 || k > k_block) left = take<A>(a, a_at + i * a.stride(-2) + l * a.stride(-1), rows, depth, a_buffer);
        const Matrix<A> right = take<A>(b, b_at + l * b.stride(-2) + j * b.stride(-1), depth, cols, b_buffer);
        gemm<A>(rows, cols, depth, left.data, left.row, left.col, right.data, right.row, right.col, bias || l > 0 ? A{1} : A{0}, c, c_row);
      }
      if (direct) continue;
#pragma omp parallel for schedule(static) if (rows * cols >= kParallel)
      for (std::int64_t row = 0; row < rows; ++row) store<A>(out, c_at + row * out.stride(-2), out.stride(-1), cols, c + row * c_row);
    }
  }
}

template <class A>
void bmm(const OpCall& call) {
  const View& a = call.inputs[0];
  const View& b = call.inputs[1];
  const View& out = call.outputs[0];
  const std::int64_t batch = out.size(0);
#pragma omp parallel for schedule(static) if (batch > 1 && out.elements() * a.size(-1) >= kParallel)
  for (std::int64_t i = 0; i < batch; ++i) product<A>(a, i * a.stride(0), b, i * b.stride(0), out, i * out.stride(0), nullptr);
}

}  // namespace

template <class A>
bool run_matmul(const OpCall& call) {
  switch (call.kind) {
    case OpKind::mm:
      product<A>(call.inputs[0], 0, call.inputs[1], 0, call.outputs[0], 0, nullptr);
      return true;
    case OpKind::addmm:
      product<A>(call.inputs[1], 0, call.inputs[2], 0, call.outputs[0], 0, &call.inputs[0]);
      return true;
    case OpKind::bmm:
      bmm<A>(call);
      return true;
    default:
      return false;
  }
}

template bool run_matmul<float>(const OpCall& call);
template bool run_matmul<double>(const OpCall& call);

}  // namespace whatfits::native::WHATFITS_ISA
