// Causal attention without score matrices in memory: a block of query rows at a time.
#include "cpu/kernels/math.h"
#include "cpu/kernels/memory.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {

constexpr std::int64_t kBlock = 64;  // query rows

struct Heads {
  std::int64_t batch, heads, tokens, width;
  explicit Heads(const View& q) : batch(q.size(0)), heads(q.size(1)), tokens(q.size(2)), width(q.size(3)) {}
  std::int64_t count() const { return batch * heads; }
};

/// One head, packed, in A.
template <class A>
void gather(const View& v, std::int64_t offset, const Heads& h, A* to) {
  for (std::int64_t t = 0; t < h.tokens; ++t) {
    A* const row = to + t * h.width;
    const A* const from = load<A>(v, offset + t * v.stride(2), v.stride(3), h.width, row);
    if (from != row) __builtin_memcpy(row, from, static_cast<std::size_t>(h.width) * sizeof(A));
  }
}

template <class A>
void scatter(const View& v, std::int64_t offset, const Heads& h, const A* from) {
  for (std::int64_t t = 0; t < h.tokens; ++t) store<A>(v, offset + t * v.stride(2), v.stride(3), h.width, from + t * h.width);
}

std::int64_t head_offset(const View& v, const Heads& h, std::int64_t i) { return i / h.heads * v.stride(0) + i % h.heads * v.stride(1); }

/// The log-sum-exp of a head's rows: a tensor [B, NH, T], or plain bytes with rows padded (memory-efficient attention).
template <class A>
A* logsumexp_of(const View& v, const Heads& h, std::int64_t i) {
  const std::int64_t row = v.rank == 3 ? h.tokens : static_cast<std::int64_t>(v.bytes / sizeof(A)) / h.count();
  return static_cast<A*>(v.data) + i * row;
}

template <class A>
void forward(const OpCall& call) {
  const View& q = call.inputs[0];
  const View& k = call.inputs[1];
  const View& v = call.inputs[2];
  const View& out = call.outputs[0];
  const Heads h(q);
  const A scale = static_cast<A>(1 / std::sqrt(call.scalar));
  const std::int64_t head = h.tokens * h.width;
#pragma omp parallel
  {
    Buffer<A> query(head);
    Buffer<A> key(head);
    Buffer<A> value(head);
    Buffer<A> result(head);
    Buffer<A> scores(kBlock * h.tokens);
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < h.count(); ++i) {
      gather<A>(q, head_offset(q, h, i), h, query);
      gather<A>(k, head_offset(k, h, i), h, key);
      gather<A>(v, head_offset(v, h, i), h, value);
      for (std::int64_t first = 0; first < h.tokens; first += kBlock) {
        const std::int64_t rows = least(kBlock, h.tokens - first);
        const std::int64_t seen = first + rows;
        gemm<A>(rows, seen, h.width, query + first * h.width, h.width, 1, key.get(), 1, h.width, A{0}, scores, seen);
        for (std::int64_t r = 0; r < rows; ++r) {
          A* const s = scores + r * seen;
          const std::int64_t n = first + r + 1;
          A most = s[0] * scale;
          for (std::int64_t j = 0; j < n; ++j) {
            s[j] *= scale;
            most = s[j] > most ? s[j] : most;
          }
          A sum = 0;
#pragma omp simd reduction(+ : sum)
          for (std::int64_t j = 0; j < n; ++j) {
            s[j] = exponential(s[j] - most);
            sum += s[j];
          }
          const A inverse = 1 / sum;
          for (std::int64_t j = 0; j < n; ++j) s[j] *= inverse;
          for (std::int64_t j = n; j < seen; ++j) s[j] = 0;
          if (call.outputs.size() > 1) logsumexp_of<A>(call.outputs[1], h, i)[first + r] = most + std::log(sum);
        }
        gemm<A>(rows, h.width, seen, scores.get(), seen, 1, value.get(), h.width, 1, A{0}, result + first * h.width, h.width);
      }
      scatter<A>(out, head_offset(out, h, i), h, result.get());
    }
  }
}

/// Flash attention has the gradient and the output as [B, T, NH, D], the others as [B, NH, T, D].
template <class A>
void backward(const OpCall& call, bool tokens_first) {
  const View& q = call.inputs[1];
  const View& k = call.inputs[2];
  const View& v = call.inputs[3];
  const Heads h(q);
  View grad = call.inputs[0];
  View out = call.inputs[4];
  if (tokens_first) {
    for (View* t : {&grad, &out}) {
      const std::int64_t stride = t->strides[1];
      t->strides[1] = t->strides[2];
      t->strides[2] = stride;
    }
  }
  const A scale = static_cast<A>(1 / std::sqrt(call.scalar));
  const std::int64_t head = h.tokens * h.width;
#pragma omp parallel
  {
    Buffer<A> query(head), key(head), value(head), upstream(head), result(head);
    Buffer<A> d_query(head), d_key(head), d_value(head);
    Buffer<A> scores(kBlock * h.tokens), d_scores(kBlock * h.tokens);
#pragma omp for schedule(static)
    for (std::int64_t i = 0; i < h.count(); ++i) {
      gather<A>(q, head_offset(q, h, i), h, query);
      gather<A>(k, head_offset(k, h, i), h, key);
      gather<A>(v, head_offset(v, h, i), h, value);
      gather<A>(grad, head_offset(grad, h, i), h, upstream);
      gather<A>(out, head_offset(out, h, i), h, result);
      const A* const lse = logsumexp_of<A>(call.inputs[5], h, i);
      for (std::int64_t e = 0; e < head; ++e) d_key[e] = d_value[e] = 0;
      for (std::int64_t first = 0; first < h.tokens; first += kBlock) {
        const std::int64_t rows = least(kBlock, h.tokens - first);
        const std::int64_t seen = first + rows;
        const std::int64_t at = first * h.width;
        gemm<A>(rows, seen, h.width, query + at, h.width, 1, key.get(), 1, h.width, A{0}, scores, seen);
        gemm<A>(rows, seen, h.width, upstream + at, h.width, 1, value.get(), 1, h.width, A{0}, d_scores, seen);
        for (std::int64_t r = 0; r < rows; ++r) {
          A* const s = scores + r * seen;
          A* const d = d_scores + r * seen;
          const std::int64_t n = first + r + 1;
          A delta = 0;  // the row's sum of gradient times output
          for (std::int64_t c = 0; c < h.width; ++c) delta += upstream[at + r * h.width + c] * result[at + r * h.width + c];
          const A shift = lse[first + r];
          for (std::int64_t j = 0; j < n; ++j) {
            s[j] = exponential(s[j] * scale - shift);
            d[j] = s[j] * (d[j] - delta) * scale;
          }
          for (std::int64_t j = n; j < seen; ++j) s[j] = d[j] = 0;
        }
        gemm<A>(seen, h.width, rows, scores.get(), 1, seen, upstream + at, h.width, 1, A{1}, d_value, h.width);
        gemm<A>(seen, h.width, rows, d_scores.get(), 1, seen, query + at, h.width, 1, A{1}, d_key, h.width);
        gemm<A>(rows, h.width, seen, d_scores.get(), seen, 1, key.get(), h.width, 1, A{0}, d_query + at, h.width);
      }
      scatter<A>(call.outputs[0], head_offset(call.outputs[0], h, i), h, d_query.get());
      scatter<A>(call.outputs[1], head_offset(call.outputs[1], h, i), h, d_key.get());
      scatter<A>(call.outputs[2], head_offset(call.outputs[2], h, i), h, d_value.get());
    }
  }
}

}  // namespace

template <class A>
bool run_attention(const OpCall& call) {
  switch (call.kind) {
    case OpKind::sdpa_flash:
    case OpKind::sdpa_efficient:
      forward<A>(call);
      return true;
    case OpKind::sdpa_flash_backward:
      backward<A>(call, true);
      return true;
    case OpKind::sdpa_efficient_backward:
      backward<A>(call, false);
      return true;
    default:
      return false;
  }
}

template bool run_attention<float>(const OpCall& call);
template bool run_attention<double>(const OpCall& call);

}  // namespace whatfits::native::WHATFITS_ISA
