// Sums, norms and other results smaller than what they are made of. All add in an order that does not depend on threads.
#include "cpu/kernels/math.h"
#include "cpu/kernels/memory.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {

/// Over the leading dimensions, which are those that broadcasting had put in front.
template <class A>
void sum_rows(const View& input, const View& out) {
  View x = input;
  Buffer<A> packed(is_contiguous(input) ? 0 : input.elements());
  if (!is_contiguous(input)) {
    x.dtype = kTypeOf<A>;
    x.data = packed.get();
    std::int64_t next = 1;
    for (int i = x.rank - 1; i >= 0; --i) {
      x.strides[static_cast<std::size_t>(i)] = next;
      next *= x.size(i);
    }
    map<A, 1>(x, {&input}, [](A* to, const A* const* from, std::int64_t n) {
      for (std::int64_t i = 0; i < n; ++i) to[i] = from[0][i];
    });
  }
  constexpr std::int64_t kWidth = 256;
  constexpr std::int64_t kBlock = 64;  // rows added up before they join the total, so that many small numbers are not lost in it
  const std::int64_t cols = out.elements();
  const std::int64_t rows = x.elements() / cols;
#pragma omp parallel for schedule(static) if (rows * cols >= kParallel)
  for (std::int64_t chunk = 0; chunk < (cols + kWidth - 1) / kWidth; ++chunk) {
    A total[kWidth] = {};
    A block[kWidth];
    A buffer[kWidth];
    const std::int64_t begin = chunk * kWidth;
    const std::int64_t n = least(kWidth, cols - begin);
    for (std::int64_t first = 0; first < rows; first += kBlock) {
      for (A& b : block) b = 0;
      for (std::int64_t row = first; row < least(rows, first + kBlock); ++row) {
        const A* const from = load<A>(x, row * cols + begin, 1, n, buffer);
        for (std::int64_t i = 0; i < n; ++i) block[i] += from[i];
      }
      for (std::int64_t i = 0; i < n; ++i) total[i] += block[i];
    }
    store<A>(out, begin, 1, n, total);
  }
}

template <class A>
void sum_last(const View& x, const View& out) {
  const std::int64_t cols = x.size(-1);
  const std::int64_t rows = x.elements() / cols;
#pragma omp parallel for schedule(static) if (rows * cols >= kParallel)
  for (std::int64_t row = 0; row < rows; ++row) {
    Buffer<A> buffer(cols);
    const A* const from = load<A>(x, row_offset(x, row), x.stride(-1), cols, buffer);
    A sum = 0;
#pragma omp simd reduction(+ : sum)
    for (std::int64_t i = 0; i < cols; ++i) sum += from[i];
    store<A>(out, row, 1, 1, &sum);
  }
}

template <class A>
void norm(const View& x, const View& out) {
  constexpr std::int64_t kPart = 1 << 16;
  const std::int64_t n = x.elements();  // packed in some order, and order does not matter
  const std::int64_t parts = (n + kPart - 1) / kPart;
  Buffer<double> partial(parts);
#pragma omp parallel for schedule(static) if (n >= kParallel)
  for (std::int64_t part = 0; part < parts; ++part) {
    double total = 0;
    A buffer[kChunk];
    for (std::int64_t begin = part * kPart; begin < least(n, (part + 1) * kPart); begin += kChunk) {
      const std::int64_t count = least(kChunk, least(n, (part + 1) * kPart) - begin);
      const A* const from = load<A>(x, begin, 1, count, buffer);
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < count; ++i) sum += from[i] * from[i];
      total += static_cast<double>(sum);
    }
    partial[part] = total;
  }
  double total = 0;
  for (std::int64_t part = 0; part < parts; ++part) total += partial[part];
  const A result = static_cast<A>(std::sqrt(total));
  store<A>(out, 0, 1, 1, &result);
}

void all(const View& x, const View& out) {
  const std::int64_t cols = x.size(-1);
#pragma omp parallel for schedule(static) if (x.elements() >= kParallel)
  for (std::int64_t row = 0; row < x.elements() / cols; ++row) {
    const bool* const from = element<bool>(x, row * cols);
    bool every = true;
    for (std::int64_t i = 0; i < cols; ++i) every = every && from[i];
    *element<bool>(out, row) = every;
  }
}

}  // namespace

template <class A>
bool run_reductions(const OpCall& call) {
  switch (call.kind) {
    case OpKind::sum:
      if ((call.flags & op_flags::last_dimension) != 0) {
        sum_last<A>(call.inputs[0], call.outputs[0]);
      } else {
        sum_rows<A>(call.inputs[0], call.outputs[0]);
      }
      return true;
    case OpKind::foreach_norm:
    case OpKind::vector_norm:
      norm<A>(call.inputs[0], call.outputs[0]);
      return true;
    case OpKind::all:
      all(call.inputs[0], call.outputs[0]);
      return true;
    default:
      return false;
  }
}

template bool run_reductions<float>(const OpCall& call);
template bool run_reductions<double>(const OpCall& call);

}  // namespace whatfits::native::WHATFITS_ISA
