// One output element for each input element, broadcasting where shapes say so.
#include "cpu/kernels/math.h"
#include "cpu/kernels/memory.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {

template <class A, class Fn>
void map1(const OpCall& call, Fn fn) {
  map<A, 1>(call.outputs[0], {&call.inputs[0]}, [fn](A* to, const A* const* from, std::int64_t n) {
    const A* const x = from[0];
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) to[i] = fn(x[i]);
  });
}

template <class A, class Fn>
void map2(const View& out, const View& a, const View& b, Fn fn) {
  map<A, 2>(out, {&a, &b}, [fn](A* to, const A* const* from, std::int64_t n) {
    const A* const x = from[0];
    const A* const y = from[1];
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) to[i] = fn(x[i], y[i]);
  });
}

template <class A>
void fill(const View& out, A value) {
  View scalar;  // broadcast; what `out` held before may not even be a value of its type
  scalar.data = &value;
  scalar.dtype = kTypeOf<A>;
  map<A, 1>(out, {&scalar}, [](A* to, const A* const* from, std::int64_t n) {
    const A* const x = from[0];
#pragma omp simd
    for (std::int64_t i = 0; i < n; ++i) to[i] = x[i];
  });
}

/// Into a larger shape: the rest is zero.
template <class A>
void copy(const View& x, const View& out) {
  View corner = out;
  bool smaller = false;
  for (int i = 0; i < out.rank; ++i) {
    smaller = smaller || x.size(i) < out.size(i);
    corner.sizes[static_cast<std::size_t>(i)] = x.size(i);
  }
  if (smaller) fill<A>(out, 0);
  map2<A>(corner, x, x, [](A a, A) { return a; });
}

template <class A>
void tril(const OpCall& call) {
  const View& out = call.outputs[0];
  const std::int64_t cols = out.size(-1);
#pragma omp parallel for schedule(static) if (out.elements() >= kParallel)
  for (std::int64_t row = 0; row < out.size(-2); ++row) {
    Buffer<A> buffer(cols);
    for (std::int64_t col = 0; col < cols; ++col) buffer[col] = col <= row ? A{1} : A{0};
    if (!call.inputs.empty()) {
      Buffer<A> kept(cols);
      const A* const x = load<A>(call.inputs[0], row * call.inputs[0].stride(-2), call.inputs[0].stride(-1), cols, kept);
      for (std::int64_t col = 0; col <= row && col < cols; ++col) buffer[col] = x[col];
    }
    store<A>(out, row * out.stride(-2), out.stride(-1), cols, buffer);
  }
}

template <class A>
void cat(const OpCall& call) {
  View part = call.outputs[0];
  const auto dim = static_cast<std::size_t>(call.scalar);
  std::int64_t begin = 0;
  for (const View& x : call.inputs) {
    part.sizes[dim] = x.sizes[dim];
    part.data = static_cast<char*>(call.outputs[0].data) + static_cast<Bytes>(begin * part.strides[dim]) * size_of(part.dtype);
    copy<A>(x, part);
    begin += x.sizes[dim];
  }
}

template <class A>
void gelu_backward(const OpCall& call) {
  map2<A>(call.outputs[0], call.inputs[0], call.inputs[1], [](A grad, A x) {
    const A cdf = static_cast<A>(0.5) * (1 + error_function(x * kRootHalf<A>));
    const A pdf = exponential(static_cast<A>(-0.5) * x * x) * kInverseRoot2Pi<A>;
    return grad * (cdf + x * pdf);
  });
}

}  // namespace

template <class A>
bool run_elementwise(const OpCall& call) {
  const auto& in = call.inputs;
  const auto s = static_cast<A>(call.scalar);
  switch (call.kind) {
    case OpKind::fill:
      fill<A>(call.outputs[0], s);
      return true;
    case OpKind::zero_:
      fill<A>(call.outputs[0], 0);
      return true;
    case OpKind::copy:
      copy<A>(in[0], call.outputs[0]);
      return true;
    case OpKind::add:
      if (in.size() == 1) {
        map1<A>(call, [s](A x) { return x + s; });
      } else {
        map2<A>(call.outputs[0], in[0], in[1], [](A x, A y) { return x + y; });
      }
      return true;
    case OpKind::add_:
      map2<A>(call.outputs[0], in[0], in[1], [](A x, A y) { return x + y; });
      return true;
    case OpKind::mul:
      map2<A>(call.outputs[0], in[0], in[1], [](A x, A y) { return x * y; });
      return true;
    case OpKind::foreach_mul_:
      map2<A>(call.outputs[0], call.outputs[0], in[0], [](A x, A y) { return x * y; });
      return true;
    case OpKind::div:
      map2<A>(call.outputs[0], in[0], in[1], [](A x, A y) { return x / y; });
      return true;
    case OpKind::div_scalar:
      map1<A>(call, [inverse = static_cast<A>(1 / call.scalar)](A x) { return x * inverse; });
      return true;
    case OpKind::mul_scalar:
      map1<A>(call, [s](A x) { return x * s; });
      return true;
    case OpKind::eq_scalar:
      map1<A>(call, [s](A x) { return x == s ? A{1} : A{0}; });
      return true;
    case OpKind::is_neg_inf:
      map1<A>(call, [](A x) { return x < static_cast<A>(-3.4e38) && x == x + 1 ? A{1} : A{0}; });
      return true;
    case OpKind::reciprocal:
      map1<A>(call, [](A x) { return 1 / x; });
      return true;
    case OpKind::sqrt:
      map1<A>(call, [](A x) { return std::sqrt(x); });
      return true;
    case OpKind::clamp:
      map1<A>(call, [s](A x) { return x > s ? s : x; });
      return true;
    case OpKind::gelu:
      map1<A>(call, [](A x) { return x * (static_cast<A>(0.5) * (1 + error_function(x * kRootHalf<A>))); });
      return true;
    case OpKind::gelu_backward:
      gelu_backward<A>(call);
      return true;
    case OpKind::masked_fill:
      map2<A>(call.outputs[0], in[0], in[1], [s](A x, A mask) { return mask != 0 ? s : x; });
      return true;
    case OpKind::masked_fill_backward:
      map2<A>(call.outputs[0], in[0], in[1], [](A grad, A mask) { return mask != 0 ? A{0} : grad; });
      return true;
    case OpKind::where:
      map<A, 3>(call.outputs[0], {&in[0], &in[1], &in[2]}, [](A* to, const A* const* from, std::int64_t n) {
#pragma omp simd
        for (std::int64_t i = 0; i < n; ++i) to[i] = from[0][i] != 0 ? from[1][i] : from[2][i];
      });
      return true;
    case OpKind::tril:
      tril<A>(call);
      return true;
    case OpKind::cat:
      cat<A>(call);
      return true;
    case OpKind::stack: {
      View place = call.outputs[0];
      place.rank = 0;
      place.data = static_cast<char*>(place.data) + static_cast<Bytes>(call.scalar) * size_of(place.dtype);
      copy<A>(in[0], place);
      return true;
    }
    default:
      return false;
  }
}

template bool run_elementwise<float>(const OpCall& call);
template bool run_elementwise<double>(const OpCall& call);

}  // namespace whatfits::native::WHATFITS_ISA
