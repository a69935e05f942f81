// Elements in and out of the type that is computed in, and the loop over strided operands.
#pragma once

#include "cpu/kernels/isa.h"

namespace whatfits::native::WHATFITS_ISA {

__extension__ typedef _Float16 float16;
struct bfloat16 {
  std::uint16_t bits;
};

inline float widen(float x) { return x; }
inline double widen(double x) { return x; }
inline float widen(float16 x) { return static_cast<float>(x); }
inline float widen(bfloat16 x) { return __builtin_bit_cast(float, static_cast<std::uint32_t>(x.bits) << 16); }
inline float widen(bool x) { return x ? 1.0F : 0.0F; }

template <class A>
inline void narrow(A x, float& to) {
  to = static_cast<float>(x);
}
template <class A>
inline void narrow(A x, double& to) {
  to = static_cast<double>(x);
}
template <class A>
inline void narrow(A x, float16& to) {
  to = static_cast<float16>(static_cast<float>(x));
}
template <class A>
inline void narrow(A x, bfloat16& to) {  // to nearest even; a NaN stays one
  const auto value = static_cast<float>(x);
  const auto bits = __builtin_bit_cast(std::uint32_t, value);
  const std::uint32_t rounded = (bits + 0x7FFF + ((bits >> 16) & 1)) >> 16;
  to.bits = static_cast<std::uint16_t>(value != value ? 0x7FC0 : rounded);
}
template <class A>
inline void narrow(A x, bool& to) {
  to = x != A{0};
}

/// Calls `body` with a null pointer of the C++ type of `dtype`.
template <class Body>
inline void with_type(DType dtype, Body body) {
  switch (dtype) {
    case DType::float32:
      return body(static_cast<float*>(nullptr));
    case DType::float64:
      return body(static_cast<double*>(nullptr));
    case DType::bfloat16:
      return body(static_cast<bfloat16*>(nullptr));
    case DType::float16:
      return body(static_cast<float16*>(nullptr));
    case DType::boolean:
      return body(static_cast<bool*>(nullptr));
    case DType::uint8:
    case DType::int64:
      return;  // bytes and token ids are no numbers to compute with
  }
}

template <class A>
constexpr DType kTypeOf = sizeof(A) == 8 ? DType::float64 : DType::float32;

template <class T>
inline T* element(const View& v, std::int64_t offset) {
  return static_cast<T*>(v.data) + offset;
}

/// `n` elements from `offset` on: where they are if they need no conversion, else in `buffer`.
template <class A>
inline const A* load(const View& v, std::int64_t offset, std::int64_t stride, std::int64_t n, A* buffer) {
  if (v.dtype == kTypeOf<A> && stride == 1) return element<A>(v, offset);
  with_type(v.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    const T* const from = element<T>(v, offset);
    if (stride == 1) {
      for (std::int64_t i = 0; i < n; ++i) buffer[i] = static_cast<A>(widen(from[i]));
    } else if (stride == 0) {
      const A x = static_cast<A>(widen(*from));
      for (std::int64_t i = 0; i < n; ++i) buffer[i] = x;
    } else {
      for (std::int64_t i = 0; i < n; ++i) buffer[i] = static_cast<A>(widen(from[i * stride]));
    }
  });
  return buffer;
}

/// Where to put `n` elements that store() will then bring home.
template <class A>
inline A* target(const View& v, std::int64_t offset, std::int64_t stride, A* buffer) {
  return v.dtype == kTypeOf<A> && stride == 1 ? element<A>(v, offset) : buffer;
}
template <class A>
inline void store(const View& v, std::int64_t offset, std::int64_t stride, std::int64_t n, const A* from) {
  if (v.dtype == kTypeOf<A> && stride == 1 && from == element<A>(v, offset)) return;
  with_type(v.dtype, [&](auto* type) {
    using T = std::remove_pointer_t<decltype(type)>;
    T* const to = element<T>(v, offset);
    if (stride == 1) {
      for (std::int64_t i = 0; i < n; ++i) narrow(from[i], to[i]);
    } else {
      for (std::int64_t i = 0; i < n; ++i) narrow(from[i], to[i * stride]);
    }
  });
}

inline bool is_contiguous(const View& v) {
  std::int64_t expected = 1;
  for (int i = v.rank - 1; i >= 0; --i) {
    if (v.size(i) == 1) continue;
    if (v.stride(i) != expected) return false;
    expected *= v.size(i);
  }
  return true;
}

/// Offset of row `r`, rows being everything but the last dimension.
inline std::int64_t row_offset(const View& v, std::int64_t r) {
  std::int64_t offset = 0;
  for (int i = v.rank - 2; i >= 0; --i) {
    offset += r % v.size(i) * v.stride(i);
    r /= v.size(i);
  }
  return offset;
}

/// A nest of loops over an output and the inputs that broadcast to it, outermost first, with as few dimensions as will do.
template <int kInputs>
struct Nest {
  int rank = 1;
  std::int64_t sizes[kMaxRank] = {1};
  std::int64_t strides[kInputs + 1][kMaxRank] = {};

  Nest(const View& out, const View* const (&inputs)[kInputs]) {
    int order[kMaxRank] = {};
    int n = 0;
    for (int i = 0; i < out.rank; ++i) {
      if (out.size(i) == 1) continue;
      int at = n++;
      for (; at > 0 && out.stride(order[at - 1]) < out.stride(i); --at) order[at] = order[at - 1];
      order[at] = i;
    }
    const auto stride_of = [&](int operand, int dim) -> std::int64_t {
      if (operand == 0) return out.stride(dim);
      const View& v = *inputs[operand - 1];
      const int own = dim - (out.rank - v.rank);
      return own < 0 || v.size(own) == 1 ? 0 : v.stride(own);
    };
    rank = 0;
    for (int k = 0; k < n; ++k) {
      bool joins = rank > 0;
      for (int operand = 0; joins && operand <= kInputs; ++operand)
        joins = strides[operand][rank - 1] == stride_of(operand, order[k]) * out.size(order[k]);
      if (joins) {
        sizes[rank - 1] *= out.size(order[k]);
      } else {
        sizes[rank++] = out.size(order[k]);
      }
      for (int operand = 0; operand <= kInputs; ++operand) strides[operand][rank - 1] = stride_of(operand, order[k]);
    }
    if (rank == 0) {
      rank = 1;
      sizes[0] = 1;
      for (auto& s : strides) s[0] = 1;
    }
  }
};

inline constexpr std::int64_t kChunk = 1024;

/// out[i] = fn(inputs[i] ...), where `fn(to, from, n)` does a run of n: `from` has a pointer for each input.
template <class A, int kInputs, class Fn>
void map(const View& out, const View* const (&inputs)[kInputs], Fn fn) {
  const Nest<kInputs> nest(out, inputs);
  const int last = nest.rank - 1;
  const std::int64_t inner = nest.sizes[last];
  std::int64_t outer = 1;
  for (int i = 0; i < last; ++i) outer *= nest.sizes[i];
  const std::int64_t chunks = (inner + kChunk - 1) / kChunk;
#pragma omp parallel for schedule(static) if (outer * inner >= kParallel)
  for (std::int64_t task = 0; task < outer * chunks; ++task) {
    alignas(64) A buffers[kInputs + 1][kChunk];
    const std::int64_t begin = task % chunks * kChunk;
    const std::int64_t n = least(kChunk, inner - begin);
    std::int64_t offsets[kInputs + 1];
    for (int k = 0; k <= kInputs; ++k) offsets[k] = begin * nest.strides[k][last];
    std::int64_t rest = task / chunks;
    for (int i = last - 1; i >= 0; --i) {
      const std::int64_t at = rest % nest.sizes[i];
      rest /= nest.sizes[i];
      for (int k = 0; k <= kInputs; ++k) offsets[k] += at * nest.strides[k][i];
    }
    const A* from[kInputs];
    for (int k = 0; k < kInputs; ++k) from[k] = load(*inputs[k], offsets[k + 1], nest.strides[k + 1][last], n, buffers[k + 1]);
    A* const to = target(out, offsets[0], nest.strides[0][last], buffers[0]);
    fn(to, from, n);
    store(out, offsets[0], nest.strides[0][last], n, to);
  }
}

}  // namespace whatfits::native::WHATFITS_ISA
