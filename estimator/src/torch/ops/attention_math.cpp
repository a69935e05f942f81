#include <cmath>
#include <limits>

#include "torch/autograd.h"
#include "torch/checkpoint.h"
#include "torch/ops.h"
#include "torch/ops/attention.h"

namespace whatfits::torch {

namespace {

/// Softmax that gives zeros, not NaN, for a row that is masked as a whole: it looks for such rows.
Tensor safe_softmax(const Tensor& x) {
  if (!x) return {};
  Torch& torch = x.torch();
  Tensor out = softmax(x);
  if (!out) return {};
  const With no_grad(torch.grad_enabled, false);
  const Tensor masked = torch.empty(OpKind::is_neg_inf, x.shape(), DType::boolean);
  masked.named("scores that are -inf");
  torch.recorder.op({.kind = OpKind::is_neg_inf}, {x.id()}, {masked.id()});
  Shape rows = x.shape();
  rows[-1] = Dim{};
  const Tensor all = torch.empty(OpKind::all, rows, DType::boolean);
  all.named("rows that are masked as a whole");
  torch.recorder.op({.kind = OpKind::all}, {masked.id()}, {all.id()});
  const Tensor zero = full(torch, {}, DType::float32, 0);
  torch.recorder.op({.kind = OpKind::where}, {all.id(), zero.id(), out.id()}, {out.id()});
  return out;
}

/// at::ones([T, T], bool).tril(), then 0 where it is true and -inf elsewhere.
Tensor causal_mask(Torch& torch, Dim tokens) {
  if (torch.stopped) return {};
  Tensor allowed = torch.empty(OpKind::tril, {tokens, tokens}, DType::boolean);
  {
    const Tensor ones = std::move(allowed);
    torch.recorder.op({.kind = OpKind::fill, .scalar = 1}, {}, {ones.id()});
    allowed = torch.empty(OpKind::tril, {tokens, tokens}, DType::boolean);
    allowed.named("causal mask");
    torch.recorder.op({.kind = OpKind::tril}, {ones.id()}, {allowed.id()});
  }
  const Tensor zero = full(torch, {}, DType::float32, 0);
  const Tensor blocked = full(torch, {}, DType::float32, -std::numeric_limits<double>::infinity());
  Tensor mask = torch.empty(OpKind::where, {tokens, tokens}, DType::float32);
  mask.named("additive causal mask");
  torch.recorder.op({.kind = OpKind::where}, {allowed.id(), zero.id(), blocked.id()}, {mask.id()});
  return mask;
}

}  // namespace

namespace {

/// x.repeat_interleave(groups, -3): expanded, then copied.
Tensor repeat_heads(const Tensor& x, std::int64_t groups) {
  if (!x || groups == 1) return x;
  Tensor y = unsqueeze(x, 2);
  y = expand(y, {x.size(0), x.size(1), Dim{groups}, x.size(2), x.size(3)});
  y = contiguous(y);
  y = view(y, {x.size(0), groups * x.size(1), x.size(2), x.size(3)});
  y.named("key or value heads, repeated");
  return y;
}

}  // namespace

Tensor math_attention(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, const SdpaCall& call) {
  Torch& torch = q.torch();
  const DType dtype = q.dtype();
  Tensor attn;  // the second of what the function returns: its caller drops it, after all names here
  // The function's own names, in its own order: they die last to first.
  const Tensor query_acc = to(q, DType::float32);
  const Tensor key_acc = to(k, DType::float32);
  const Tensor value_acc = to(v, DType::float32);
  if (!value_acc) return {};
  const double scale = std::sqrt(1.0 / std::sqrt(static_cast<double>(q.size(3).size)));
  Tensor mask = bias;
  Tensor query = mul(query_acc, scale);
  Tensor key_expanded, value_expanded;
  const Frame frame{&key_expanded, &value_expanded, &query, &mask};
  if (call.causal) mask = causal_mask(torch, q.size(2));
  // Without enable_gqa a single key head is broadcast by the products themselves.
  const std::int64_t groups = call.grouped ? q.size(1).size / k.size(1).size : 1;
  key_expanded = repeat_heads(key_acc, groups);
  value_expanded = repeat_heads(value_acc, groups);
  Tensor scores;
  {
    const Tensor scaled_key = mul(key_expanded, scale);
    scores = matmul(query, transpose(scaled_key, 2, 3));
    scores.named("attention scores");
  }
  if (scores && mask) {
    if (dispatch_mode_enabled(torch)) {
      scores = add(scores, mask);
    } else {
      add_(scores, mask);
    }
  }
  scores = safe_softmax(scores);
  scores.named("attention probabilities");
  scores = dropout(scores, call.dropout);
  // make_tuple(matmul(...).to(dtype), attn.to(dtype)): the second is made first.
  if (dtype == DType::float32) return matmul(scores, value_expanded);
  attn = to(scores, dtype);
  return to(matmul(scores, value_expanded), dtype);
}

}  // namespace whatfits::torch
