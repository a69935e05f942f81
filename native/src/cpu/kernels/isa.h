// The kernels are compiled once for each level of the instruction set, in a namespace of its own; cpu_kernels.cpp picks one.
// Keep to plain templates of this namespace here: an inline function of a library would be merged over the levels by the linker.
#pragma once

#include <cstdint>

#include "measure/kernels.h"

#ifndef WHATFITS_ISA
#define WHATFITS_ISA baseline
#endif

namespace whatfits::native::WHATFITS_ISA {

/// Below this many elements a second thread costs more than it does.
inline constexpr std::int64_t kParallel = 1 << 15;

template <class T>
inline T least(T a, T b) {
  return b < a ? b : a;
}

/// An array that goes with its scope; not initialised.
template <class T>
class Buffer {
 public:
  explicit Buffer(std::int64_t n) : data_(static_cast<T*>(__builtin_malloc(static_cast<std::size_t>(n < 1 ? 1 : n) * sizeof(T)))) {
    if (!data_) __builtin_trap();
  }
  ~Buffer() { __builtin_free(data_); }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  T* get() const { return data_; }
  operator T*() const { return data_; }  // NOLINT(google-explicit-constructor): it is an array

 private:
  T* data_;
};

// One function for each family of operators, true if it knows the operator. A is the type that is computed in.
bool run(const OpCall& call);
template <class A>
bool run_elementwise(const OpCall& call);
template <class A>
bool run_rows(const OpCall& call);
template <class A>
bool run_reductions(const OpCall& call);
template <class A>
bool run_indexed(const OpCall& call);
template <class A>
bool run_matmul(const OpCall& call);
template <class A>
bool run_attention(const OpCall& call);
template <class A>
bool run_optimizer(const OpCall& call);

/// C = A B + beta C, of m x k and k x n, with any strides for A and B of which one of each pair is 1. Uses all threads, or the one it
/// is called on inside a parallel region.
template <class A>
void gemm(std::int64_t m, std::int64_t n, std::int64_t k, const A* a, std::int64_t a_row, std::int64_t a_col, const A* b,
          std::int64_t b_row, std::int64_t b_col, A beta, A* c, std::int64_t c_row);

}  // namespace whatfits::native::WHATFITS_ISA
