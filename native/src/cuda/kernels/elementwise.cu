// One output element for each input element, broadcasting where shapes say so.
#include "cuda/kernels/device.h"

namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE {

namespace {

// `s` is the operator's scalar; x are the inputs' elements.
#define WHATFITS_MAP(Name, kInputs, expression)                                               \
  struct Name {                                                                               \
    static constexpr int inputs = kInputs;                                                    \
    float s;                                                                                  \
    __device__ float operator()([[maybe_unused]] const float* x) const { return expression; } \
  }

constexpr float kRootHalf = 0.70710678F;
constexpr float kInverseRoot2Pi = 0.39894228F;

WHATFITS_MAP(Fill, 0, s);
WHATFITS_MAP(Copy, 1, x[0]);
WHATFITS_MAP(AddScalar, 1, x[0] + s);
WHATFITS_MAP(Add, 2, x[0] + x[1]);
WHATFITS_MAP(Mul, 2, x[0] * x[1]);
WHATFITS_MAP(Div, 2, x[0] / x[1]);
WHATFITS_MAP(Scale, 1, x[0] * s);
WHATFITS_MAP(Equal, 1, x[0] == s ? 1.0F : 0.0F);
WHATFITS_MAP(IsNegInf, 1, x[0] < -3.4e38F && x[0] == x[0] + 1 ? 1.0F : 0.0F);
WHATFITS_MAP(Reciprocal, 1, 1 / x[0]);
WHATFITS_MAP(Sqrt, 1, sqrtf(x[0]));
WHATFITS_MAP(Clamp, 1, x[0] > s ? s : x[0]);
WHATFITS_MAP(Gelu, 1, x[0] * (0.5F * (1 + erff(x[0] * kRootHalf))));
WHATFITS_MAP(GeluBackward, 2, x[0] * (0.5F * (1 + erff(x[1] * kRootHalf)) + x[1] * expf(-0.5F * x[1] * x[1]) * kInverseRoot2Pi));
WHATFITS_MAP(MaskedFill, 2, x[1] != 0 ? s : x[0]);
WHATFITS_MAP(Where, 3, x[0] != 0 ? x[1] : x[2]);
#undef WHATFITS_MAP

/// Loops over an output and the inputs that broadcast to it, outermost first; operand 0 is the output.
template <int kOperands>
struct Nest {
  std::int64_t elements = 1;
  int rank = 0;
  std::int64_t sizes[kMaxRank] = {};
  std::int64_t strides[kOperands][kMaxRank] = {};
  void* data[kOperands] = {};
  DType types[kOperands] = {};

  explicit Nest(const View* const (&views)[kOperands]) {
    const View& out = *views[0];
    const auto stride_of = [&](int operand, int dim) -> std::int64_t {
      const View& v = *views[operand];
      const int own = dim - (out.rank - v.rank);
      return own < 0 || (operand > 0 && v.size(own) == 1) ? 0 : v.stride(own);
    };
    // By falling stride of the output, so that neighbours in memory are neighbours in work.
    int order[kMaxRank] = {};
    int n = 0;
    for (int i = 0; i < out.rank; ++i) {
      if (out.size(i) == 1) continue;
      int at = n++;
      for (; at > 0 && out.stride(order[at - 1]) < out.stride(i); --at) order[at] = order[at - 1];
      order[at] = i;
    }
    for (int k = 0; k < n; ++k) {
      bool joins = rank > 0;
      for (int o = 0; joins && o < kOperands; ++o) joins = strides[o][rank - 1] == stride_of(o, order[k]) * out.size(order[k]);
      if (!joins) sizes[rank++] = 1;
      sizes[rank - 1] *= out.size(order[k]);
      for (int o = 0; o < kOperands; ++o) strides[o][rank - 1] = stride_of(o, order[k]);
      elements *= out.size(order[k]);
    }
    for (int o = 0; o < kOperands; ++o) {
      data[o] = views[o]->data;
      types[o] = views[o]->dtype;
    }
  }

  /// One run of elements next to each other, all of one type.
  bool flat(DType dtype) const {
    for (int o = 0; o < kOperands; ++o) {
      if (types[o] != dtype || rank > 1 || (rank == 1 && strides[o][0] != 1)) return false;
    }
    return true;
  }
};

template <class Fn>
__global__ void map_any(Nest<Fn::inputs + 1> nest, Fn fn) {
  constexpr int kOperands = Fn::inputs + 1;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < nest.elements; i += step) {
    std::int64_t at[kOperands] = {};
    std::int64_t rest = i;
    for (int d = nest.rank - 1; d >= 0; --d) {
      const std::int64_t here = rest % nest.sizes[d];
      rest /= nest.sizes[d];
      for (int o = 0; o < kOperands; ++o) at[o] += here * nest.strides[o][d];
    }
    float x[Fn::inputs + 1];
    for (int o = 1; o < kOperands; ++o) x[o - 1] = load(nest.data[o], nest.types[o], at[o]);
    store(nest.data[0], nest.types[0], at[0], fn(x));
  }
}

/// Sixteen bytes at a time.
template <class T>
struct alignas(16) Pack {
  static constexpr int width = 16 / sizeof(T);
  T values[width];
};
__device__ inline float widen(float x) { return x; }
__device__ inline float widen(std::uint16_t x) { return from_bfloat16(x); }
__device__ inline void narrow(float x, float& to) { to = x; }
__device__ inline void narrow(float x, std::uint16_t& to) { to = to_bfloat16(x); }

template <class T, class Fn>
__global__ void map_flat(Nest<Fn::inputs + 1> nest, Fn fn) {
  constexpr int kWidth = Pack<T>::width;
  const std::int64_t packs = nest.elements / kWidth;
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  const std::int64_t first = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x;
  for (std::int64_t i = first; i < packs; i += step) {
    Pack<T> in[Fn::inputs + 1];
    for (int o = 0; o < Fn::inputs; ++o) in[o] = static_cast<const Pack<T>*>(nest.data[o + 1])[i];
    Pack<T> out;
    for (int k = 0; k < kWidth; ++k) {
      float x[Fn::inputs + 1];
      for (int o = 0; o < Fn::inputs; ++o) x[o] = widen(in[o].values[k]);
      narrow(fn(x), out.values[k]);
    }
    static_cast<Pack<T>*>(nest.data[0])[i] = out;
  }
  for (std::int64_t i = packs * kWidth + first; i < nest.elements; i += step) {
    float x[Fn::inputs + 1];
    for (int o = 0; o < Fn::inputs; ++o) x[o] = widen(static_cast<const T*>(nest.data[o + 1])[i]);
    narrow(fn(x), static_cast<T*>(nest.data[0])[i]);
  }
}

template <class Fn, class... Inputs>
void map(const Call& call, Fn fn, const View& out, const Inputs&... inputs) {
  const View* const views[] = {&out, &inputs...};
  const Nest<Fn::inputs + 1> nest(views);
  bool aligned = true;
  for (const View* v : views) aligned = aligned && reinterpret_cast<std::uintptr_t>(v->data) % 16 == 0;
  if (aligned && nest.flat(DType::float32)) {
    LAUNCH((map_flat<float, Fn>), blocks_for(nest.elements, 4 * kBlock), kBlock, 0, call.stream, nest, fn);
  } else if (aligned && nest.flat(DType::bfloat16)) {
    LAUNCH((map_flat<std::uint16_t, Fn>), blocks_for(nest.elements, 8 * kBlock), kBlock, 0, call.stream, nest, fn);
  } else {
    LAUNCH((map_any<Fn>), blocks_for(nest.elements, kBlock), kBlock, 0, call.stream, nest, fn);
  }
}

/// Into a larger shape: the rest is zero.
void copy(const Call& call, const View& x, const View& out) {
  View corner = out;
  bool smaller = false;
  for (int i = 0; i < out.rank; ++i) {
    smaller = smaller || x.size(i) < out.size(i);
    corner.sizes[static_cast<std::size_t>(i)] = x.size(i);
  }
  if (smaller) map(call, Fill{0}, out);
  map(call, Copy{0}, corner, x);
}

__global__ void tril_kernel(Operand x, Operand out, std::int64_t rows, std::int64_t cols) {
  const std::int64_t step = static_cast<std::int64_t>(gridDim.x) * blockDim.x;
  for (std::int64_t i = static_cast<std::int64_t>(blockIdx.x) * blockDim.x + threadIdx.x; i < rows * cols; i += step) {
    const std::int64_t row = i / cols;
    const std::int64_t col = i % cols;
    const float kept = x.data ? load(x.data, x.dtype, row * x.strides[x.rank - 2] + col * x.strides[x.rank - 1]) : 1.0F;
    store(out.data, out.dtype, row * out.strides[out.rank - 2] + col * out.strides[out.rank - 1], col <= row ? kept : 0.0F);
  }
}

void cat(const Call& call) {
  View part = call.op.outputs[0];
  const auto dim = static_cast<std::size_t>(call.op.scalar);
  std::int64_t begin = 0;
  for (const View& x : call.op.inputs) {
    part.sizes[dim] = x.sizes[dim];
    part.data = static_cast<char*>(call.op.outputs[0].data) + static_cast<Bytes>(begin * part.strides[dim]) * size_of(part.dtype);
    copy(call, x, part);
    begin += x.sizes[dim];
  }
}

}  // namespace

bool run_elementwise(const Call& call) {
  const auto& in = call.op.inputs;
  const View& out = call.op.outputs[0];
  const auto s = static_cast<float>(call.op.scalar);
  switch (call.op.kind) {
    case OpKind::fill:
      map(call, Fill{s}, out);
      return true;
    case OpKind::zero_:
      map(call, Fill{0}, out);
      return true;
    case OpKind::copy:
      copy(call, in[0], out);
      return true;
    case OpKind::add:
      if (in.size() == 1) {
        map(call, AddScalar{s}, out, in[0]);
      } else {
        map(call, Add{0}, out, in[0], in[1]);
      }
      return true;
    case OpKind::add_:
      map(call, Add{0}, out, in[0], in[1]);
      return true;
    case OpKind::mul:
      map(call, Mul{0}, out, in[0], in[1]);
      return true;
    case OpKind::foreach_mul_:
      map(call, Mul{0}, out, out, in[0]);
      return true;
    case OpKind::div:
      map(call, Div{0}, out, in[0], in[1]);
      return true;
    case OpKind::div_scalar:
      map(call, Scale{static_cast<float>(1 / call.op.scalar)}, out, in[0]);
      return true;
    case OpKind::mul_scalar:
      map(call, Scale{s}, out, in[0]);
      return true;
    case OpKind::eq_scalar:
      map(call, Equal{s}, out, in[0]);
      return true;
    case OpKind::is_neg_inf:
      map(call, IsNegInf{0}, out, in[0]);
      return true;
    case OpKind::reciprocal:
      map(call, Reciprocal{0}, out, in[0]);
      return true;
    case OpKind::sqrt:
      map(call, Sqrt{0}, out, in[0]);
      return true;
    case OpKind::clamp:
      map(call, Clamp{s}, out, in[0]);
      return true;
    case OpKind::gelu:
      map(call, Gelu{0}, out, in[0]);
      return true;
    case OpKind::gelu_backward:
      map(call, GeluBackward{0}, out, in[0], in[1]);
      return true;
    case OpKind::masked_fill:
      map(call, MaskedFill{s}, out, in[0], in[1]);
      return true;
    case OpKind::masked_fill_backward:
      map(call, MaskedFill{0}, out, in[0], in[1]);
      return true;
    case OpKind::where:
      map(call, Where{0}, out, in[0], in[1], in[2]);
      return true;
    case OpKind::tril: {
      const std::int64_t rows = out.size(-2);
      const std::int64_t cols = out.size(-1);
      const Operand x = in.empty() ? Operand() : Operand(in[0]);
      LAUNCH(tril_kernel, blocks_for(rows * cols, kBlock), kBlock, 0, call.stream, x, Operand(out), rows, cols);
      return true;
    }
    case OpKind::cat:
      cat(call);
      return true;
    case OpKind::stack: {
      View place = out;
      place.rank = 0;
      place.data = static_cast<char*>(place.data) + static_cast<Bytes>(call.op.scalar) * size_of(place.dtype);
      copy(call, in[0], place);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace whatfits::native::cuda::WHATFITS_CUDA_NAMESPACE
