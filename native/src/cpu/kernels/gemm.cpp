// The one place that multiplies: oneDNN where it is installed, else Eigen, else plain loops (which double always uses: only tests
// compute in it).
#include "cpu/kernels/memory.h"

#if defined(WHATFITS_ONEDNN)
#include <dnnl.h>
#elif defined(WHATFITS_EIGEN)
// A namespace of its own for each level of the instruction set, as for everything else here.
#define WHATFITS_JOIN2(a, b) a##b
#define WHATFITS_JOIN(a, b) WHATFITS_JOIN2(a, b)
#define Eigen WHATFITS_JOIN(Eigen_, WHATFITS_ISA)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <Eigen/Core>
#pragma GCC diagnostic pop
#endif

namespace whatfits::native::WHATFITS_ISA {

namespace {

/// Rows of C in parallel, one after the other in memory.
template <class A>
void loops(std::int64_t m, std::int64_t n, std::int64_t k, const A* a, std::int64_t a_row, std::int64_t a_col, const A* b,
           std::int64_t b_row, std::int64_t b_col, A beta, A* c, std::int64_t c_row) {
#pragma omp parallel for schedule(static) if (m * n * k >= kParallel)
  for (std::int64_t i = 0; i < m; ++i) {
    A* const to = c + i * c_row;
    for (std::int64_t j = 0; j < n; ++j) to[j] = beta == 0 ? A{0} : beta * to[j];
    for (std::int64_t l = 0; l < k; ++l) {
      const A x = a[i * a_row + l * a_col];
      const A* const from = b + l * b_row;
      for (std::int64_t j = 0; j < n; ++j) to[j] += x * from[j * b_col];
    }
  }
}

#if !defined(WHATFITS_ONEDNN) && defined(WHATFITS_EIGEN)
void eigen(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_row, std::int64_t a_col, const float* b,
           std::int64_t b_row, std::int64_t b_col, float beta, float* c, std::int64_t c_row) {
  using RowMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using ColMajor = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  using Stride = Eigen::OuterStride<>;
  Eigen::Map<RowMajor, 0, Stride> to(c, m, n, Stride(c_row));
  const Eigen::Map<const RowMajor, 0, Stride> a_rows(a, m, k, Stride(a_row));
  const Eigen::Map<const ColMajor, 0, Stride> a_cols(a, m, k, Stride(a_col));
  const Eigen::Map<const RowMajor, 0, Stride> b_rows(b, k, n, Stride(b_row));
  const Eigen::Map<const ColMajor, 0, Stride> b_cols(b, k, n, Stride(b_col));
  const auto multiply = [&](const auto& x, const auto& y) {
    if (beta == 0) {
      to.noalias() = x * y;
    } else {
      to.noalias() += x * y;
    }
  };
  if (a_col == 1 && b_col == 1) {
    multiply(a_rows, b_rows);
  } else if (a_col == 1) {
    multiply(a_rows, b_cols);
  } else if (b_col == 1) {
    multiply(a_cols, b_rows);
  } else {
    multiply(a_cols, b_cols);
  }
}
#endif

}  // namespace

template <>
void gemm<double>(std::int64_t m, std::int64_t n, std::int64_t k, const double* a, std::int64_t a_row, std::int64_t a_col, const double* b,
                  std::int64_t b_row, std::int64_t b_col, double beta, double* c, std::int64_t c_row) {
  loops(m, n, k, a, a_row, a_col, b, b_row, b_col, beta, c, c_row);
}

template <>
void gemm<float>(std::int64_t m, std::int64_t n, std::int64_t k, const float* a, std::int64_t a_row, std::int64_t a_col, const float* b,
                 std::int64_t b_row, std::int64_t b_col, float beta, float* c, std::int64_t c_row) {
#if defined(WHATFITS_ONEDNN)
  // A matrix of one row or column may have any leading stride; BLAS wants one that leads over a line.
  const auto lead = [](std::int64_t stride, std::int64_t length) { return stride < length ? length : stride; };
  const bool a_lies = a_col != 1;
  const bool b_lies = b_col != 1;
  const dnnl_status_t status =
      dnnl_sgemm(a_lies ? 'T' : 'N', b_lies ? 'T' : 'N', m, n, k, 1.0F, a, a_lies ? lead(a_col, m) : lead(a_row, k), b,
                 b_lies ? lead(b_col, k) : lead(b_row, n), beta, c, lead(c_row, n));
  if (status != dnnl_success) loops(m, n, k, a, a_row, a_col, b, b_row, b_col, beta, c, c_row);
#elif defined(WHATFITS_EIGEN)
  eigen(m, n, k, a, a_row, a_col, b, b_row, b_col, beta, c, c_row);
#else
  loops(m, n, k, a, a_row, a_col, b, b_row, b_col, beta, c, c_row);
#endif
}

}  // namespace whatfits::native::WHATFITS_ISA
