// Tables looked up by tokens, and the tokens themselves.
#include "cpu/kernels/memory.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {

/// The token of a pair (see KernelSet).
std::int64_t token(const View& ids, std::int64_t i) { return *element<std::int64_t>(ids, i) & 0xFFFFFFFF; }

template <class A>
void embedding(const OpCall& call) {
  const View& table = call.inputs[0];
  const View& ids = call.inputs[1];
  const View& out = call.outputs[0];
  const std::int64_t cols = table.size(1);
#pragma omp parallel for schedule(static) if (out.elements() >= kParallel)
  for (std::int64_t i = 0; i < ids.elements(); ++i) {
    Buffer<A> buffer(cols);
    store<A>(out, i * cols, 1, cols, load<A>(table, token(ids, i) * cols, 1, cols, buffer));
  }
}

/// Adds each token's gradient to its row of the table, tokens in order; a row is summed in A before it is stored. Threads share out
/// the rows.
template <class A>
void embedding_backward(const OpCall& call) {
  const View& grad = call.inputs[0];
  const View& ids = call.inputs[1];
  const View& out = call.outputs[0];
  const std::int64_t cols = out.size(1);
  const std::int64_t n = ids.elements();
  // Tokens of a row as a chain through `next`, in order; `first` marks where chains begin.
  Buffer<std::int64_t> next(n);
  Buffer<std::int64_t> last_of_row(out.size(0));
  Buffer<bool> first(n);
  for (std::int64_t row = 0; row < out.size(0); ++row) last_of_row[row] = -1;
  for (std::int64_t i = 0; i < n; ++i) {
    std::int64_t& last = last_of_row[token(ids, i)];
    first[i] = last < 0;
    next[i] = -1;
    if (last >= 0) next[last] = i;
    last = i;
  }
#pragma omp parallel if (n * cols >= kParallel)
  {
    Buffer<A> total(cols);
    Buffer<A> buffer(cols);
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < n; ++i) {
      if (!first[i]) continue;
      const std::int64_t row = token(ids, i) * cols;
      const A* const before = load<A>(out, row, 1, cols, buffer);
      for (std::int64_t c = 0; c < cols; ++c) total[c] = before[c];
      for (std::int64_t at = i; at >= 0; at = next[at]) {
        const A* const from = load<A>(grad, at * cols, 1, cols, buffer);
        for (std::int64_t c = 0; c < cols; ++c) total[c] += from[c];
      }
      store<A>(out, row, 1, cols, total.get());
    }
  }
}

}  // namespace

template <class A>
bool run_indexed(const OpCall& call) {
  switch (call.kind) {
    case OpKind::arange:
      for (std::int64_t i = 0; i < call.outputs[0].elements(); ++i) *element<std::int64_t>(call.outputs[0], i) = i;
      return true;
    case OpKind::embedding:
      embedding<A>(call);
      return true;
    case OpKind::embedding_backward:
      embedding_backward<A>(call);
      return true;
    default:
      return false;
  }
}

template bool run_indexed<float>(const OpCall& call);
template bool run_indexed<double>(const OpCall& call);

}  // namespace whatfits::native::WHATFITS_ISA
