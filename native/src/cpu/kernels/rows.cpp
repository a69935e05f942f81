// Operators that look at a whole row of the last dimension: softmax, norms, the loss.
#include "cpu/kernels/math.h"
#include "cpu/kernels/memory.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {

struct Rows {
  std::int64_t rows;
  std::int64_t cols;
  explicit Rows(const View& v) : rows(v.elements() / v.size(-1)), cols(v.size(-1)) {}
  bool parallel() const { return rows * cols >= kParallel; }
};

template <class A>
const A* load_row(const View& v, std::int64_t row, A* buffer) {
  return load<A>(v, row_offset(v, row), v.stride(-1), v.size(-1), buffer);
}
template <class A>
A* target_row(const View& v, std::int64_t row, A* buffer) {
  return target<A>(v, row_offset(v, row), v.stride(-1), buffer);
}
template <class A>
void store_row(const View& v, std::int64_t row, const A* from) {
  store<A>(v, row_offset(v, row), v.stride(-1), v.size(-1), from);
}

template <class A>
A largest(const A* x, std::int64_t n) {
  A most = x[0];
#pragma omp simd reduction(max : most)
  for (std::int64_t i = 0; i < n; ++i) most = x[i] > most ? x[i] : most;
  return most;
}

template <class A>
void softmax(const OpCall& call) {
  const Rows r(call.outputs[0]);
#pragma omp parallel if (r.parallel())
  {
    Buffer<A> in(r.cols);
    Buffer<A> out(r.cols);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < r.rows; ++row) {
      const A* const x = load_row<A>(call.inputs[0], row, in);
      A* const y = target_row<A>(call.outputs[0], row, out);
      const A most = largest(x, r.cols);
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < r.cols; ++i) {
        y[i] = exponential(x[i] - most);
        sum += y[i];
      }
      const A inverse = 1 / sum;
      for (std::int64_t i = 0; i < r.cols; ++i) y[i] *= inverse;
      store_row<A>(call.outputs[0], row, y);
    }
  }
}

/// dx = y (grad - sum(grad y))
template <class A>
void softmax_backward(const OpCall& call) {
  const Rows r(call.outputs[0]);
#pragma omp parallel if (r.parallel())
  {
    Buffer<A> a(r.cols);
    Buffer<A> b(r.cols);
    Buffer<A> c(r.cols);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < r.rows; ++row) {
      const A* const grad = load_row<A>(call.inputs[0], row, a);
      const A* const y = load_row<A>(call.inputs[1], row, b);
      A* const dx = target_row<A>(call.outputs[0], row, c);
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < r.cols; ++i) sum += grad[i] * y[i];
      for (std::int64_t i = 0; i < r.cols; ++i) dx[i] = y[i] * (grad[i] - sum);
      store_row<A>(call.outputs[0], row, dx);
    }
  }
}

template <class A>
void log_softmax(const OpCall& call) {
  const Rows r(call.outputs[0]);
#pragma omp parallel if (r.parallel())
  {
    Buffer<A> in(r.cols);
    Buffer<A> out(r.cols);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < r.rows; ++row) {
      const A* const x = load_row<A>(call.inputs[0], row, in);
      A* const y = target_row<A>(call.outputs[0], row, out);
      const A most = largest(x, r.cols);
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < r.cols; ++i) sum += exponential(x[i] - most);
      const A shift = most + std::log(sum);
      for (std::int64_t i = 0; i < r.cols; ++i) y[i] = x[i] - shift;
      store_row<A>(call.outputs[0], row, y);
    }
  }
}

/// dx = grad - exp(y) sum(grad)
template <class A>
void log_softmax_backward(const OpCall& call) {
  const Rows r(call.outputs[0]);
#pragma omp parallel if (r.parallel())
  {
    Buffer<A> a(r.cols);
    Buffer<A> b(r.cols);
    Buffer<A> c(r.cols);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < r.rows; ++row) {
      const A* const grad = load_row<A>(call.inputs[0], row, a);
      const A* const y = load_row<A>(call.inputs[1], row, b);
      A* const dx = target_row<A>(call.outputs[0], row, c);
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < r.cols; ++i) sum += grad[i];
      for (std::int64_t i = 0; i < r.cols; ++i) dx[i] = grad[i] - exponential(y[i]) * sum;
      store_row<A>(call.outputs[0], row, dx);
    }
  }
}

template <class A>
void layer_norm(const OpCall& call) {
  const Rows r(call.outputs[0]);
  const View& weight = call.inputs[1];
  const View& bias = call.inputs[2];
#pragma omp parallel if (r.parallel())
  {
    Buffer<A> in(r.cols);
    Buffer<A> out(r.cols);
    Buffer<A> w_buffer(r.cols);
    Buffer<A> b_buffer(r.cols);
    const A* const w = load<A>(weight, 0, 1, r.cols, w_buffer);
    const A* const b = load<A>(bias, 0, 1, r.cols, b_buffer);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < r.rows; ++row) {
      const A* const x = load_row<A>(call.inputs[0], row, in);
      A* const y = target_row<A>(call.outputs[0], row, out);
      A sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t i = 0; i < r.cols; ++i) sum += x[i];
      const A mean = sum / static_cast<A>(r.cols);
      A squares = 0;
#pragma omp simd reduction(+ : squares)
      for (std::int64_t i = 0; i < r.cols; ++i) squares += (x[i] - mean) * (x[i] - mean);
      const A rstd = 1 / std::sqrt(squares / static_cast<A>(r.cols) + static_cast<A>(call.scalar));
      for (std::int64_t i = 0; i < r.cols; ++i) y[i] = (x[i] - mean) * rstd * w[i] + b[i];
      store_row<A>(call.outputs[0], row, y);
      store<A>(call.outputs[1], row, 1, 1, &mean);
      store<A>(call.outputs[2], row, 1, 1, &rstd);
    }
  }
}

/// The sums over rows are made in so many parts and then added in order: the same result with any number of threads.
constexpr std::int64_t kParts = 16;

template <class A>
void layer_norm_backward(const OpCall& call) {
  const Rows r(call.outputs[0]);
  const std::int64_t cols = r.cols;
  Buffer<A> partial(kParts * 2 * cols);
#pragma omp parallel if (r.parallel())
  {
    Buffer<A> a(cols);
    Buffer<A> b(cols);
    Buffer<A> c(cols);
    Buffer<A> w_buffer(cols);
    const A* const w = load<A>(call.inputs[2], 0, 1, cols, w_buffer);
#pragma omp for schedule(static)
    for (std::int64_t part = 0; part < kParts; ++part) {
      A* const dw = partial + part * 2 * cols;
      A* const db = dw + cols;
      for (std::int64_t i = 0; i < 2 * cols; ++i) dw[i] = 0;
      for (std::int64_t row = part * r.rows / kParts; row < (part + 1) * r.rows / kParts; ++row) {
        const A* const grad = load_row<A>(call.inputs[0], row, a);
        const A* const x = load_row<A>(call.inputs[1], row, b);
        A* const dx = target_row<A>(call.outputs[0], row, c);
        A one = 0;
        const A mean = *load<A>(call.inputs[3], row, 1, 1, &one);
        A two = 0;
        const A rstd = *load<A>(call.inputs[4], row, 1, 1, &two);
        A sum = 0;
        A along = 0;
#pragma omp simd reduction(+ : sum, along)
        for (std::int64_t i = 0; i < cols; ++i) {
          const A normal = (x[i] - mean) * rstd;
          const A g = grad[i] * w[i];
          sum += g;
          along += g * normal;
          dw[i] += grad[i] * normal;
          db[i] += grad[i];
        }
        sum /= static_cast<A>(cols);
        along /= static_cast<A>(cols);
        for (std::int64_t i = 0; i < cols; ++i) dx[i] = rstd * (grad[i] * w[i] - sum - (x[i] - mean) * rstd * along);
        store_row<A>(call.outputs[0], row, dx);
      }
    }
  }
  for (std::int64_t part = 1; part < kParts; ++part) {
    for (std::int64_t i = 0; i < 2 * cols; ++i) partial[i] += partial[part * 2 * cols + i];
  }
  store<A>(call.outputs[1], 0, 1, cols, partial);
  store<A>(call.outputs[2], 0, 1, cols, partial + cols);
}

std::int64_t label(const View& targets, std::int64_t i) { return *element<std::int64_t>(targets, i * targets.stride(-1)) >> 32; }

template <class A>
void nll_loss(const OpCall& call) {
  const View& x = call.inputs[0];
  const Rows r(x);
  double sum = 0;
  for (std::int64_t row = 0; row < r.rows; ++row) {
    A value = 0;
    sum -= static_cast<double>(*load<A>(x, row * x.stride(0) + label(call.inputs[1], row) * x.stride(1), 1, 1, &value));
  }
  const A mean = static_cast<A>(sum / static_cast<double>(r.rows));
  const A weight = static_cast<A>(r.rows);
  store<A>(call.outputs[0], 0, 1, 1, &mean);
  store<A>(call.outputs[1], 0, 1, 1, &weight);
}

template <class A>
void nll_loss_backward(const OpCall& call) {
  const View& out = call.outputs[0];
  const Rows r(out);
  A grad_buffer = 0;
  A weight_buffer = 0;
  const A grad = *load<A>(call.inputs[0], 0, 1, 1, &grad_buffer);
  const A weight = *load<A>(call.inputs[3], 0, 1, 1, &weight_buffer);
#pragma omp parallel if (r.parallel())
  {
    Buffer<A> buffer(r.cols);
#pragma omp for schedule(static)
    for (std::int64_t row = 0; row < r.rows; ++row) {
      A* const dx = target_row<A>(out, row, buffer);
      for (std::int64_t i = 0; i < r.cols; ++i) dx[i] = 0;
      dx[label(call.inputs[2], row)] = -grad / weight;
      store_row<A>(out, row, dx);
    }
  }
}

}  // namespace

template <class A>
bool run_rows(const OpCall& call) {
  switch (call.kind) {
    case OpKind::softmax:
      softmax<A>(call);
      return true;
    case OpKind::softmax_backward:
      softmax_backward<A>(call);
      return true;
    case OpKind::log_softmax:
      log_softmax<A>(call);
      return true;
    case OpKind::log_softmax_backward:
      log_softmax_backward<A>(call);
      return true;
    case OpKind::layer_norm:
      layer_norm<A>(call);
      return true;
    case OpKind::layer_norm_backward:
      layer_norm_backward<A>(call);
      return true;
    case OpKind::nll_loss:
      nll_loss<A>(call);
      return true;
    case OpKind::nll_loss_backward:
      nll_loss_backward<A>(call);
      return true;
    default:
      return false;
  }
}

template bool run_rows<float>(const OpCall& call);
template bool run_rows<double>(const OpCall& call);

}  // namespace whatfits::native::WHATFITS_ISA
