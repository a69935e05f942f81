#include "models/hf/masks.h"

#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::hf {

Tensor small(torch::Torch& torch, OpKind op, const Shape& shape, DType dtype, const char* label) {
  Tensor t = torch.empty(op, shape, dtype);
  t.named(label);
  torch.recorder.op({.kind = op}, {}, {t.id()});
  return t;
}

namespace {

using torch::Torch;

/// find_packed_sequence_indices: looked for without a cache and without a mask; real data has none, so what it makes goes again.
void look_for_packed_sequences(Torch& torch, Dim batch, Dim tokens) {
  constexpr const char* kLabel = "search for packed sequences";
  const Tensor first = small(torch, OpKind::add_scalar, {batch, Dim{}}, DType::int64, kLabel);
  Tensor difference;
  {
    const Tensor both = small(torch, OpKind::cat, {batch, Dim{tokens.size + 1}}, DType::int64, kLabel);
    difference = small(torch, OpKind::add, {batch, tokens}, DType::int64, kLabel);
  }
  Tensor sequences;
  {
    const Tensor breaks = small(torch, OpKind::compare, {batch, tokens}, DType::boolean, kLabel);
    sequences = small(torch, OpKind::sum, {batch, tokens}, DType::int64, kLabel);
    const Tensor wide = small(torch, OpKind::copy, {batch, tokens}, DType::int64, kLabel);
    // One row is scanned by cub, several by a kernel that needs nothing.
    if (batch.size == 1 && !torch.stopped) torch.scratch(OpKind::sum, torch::index_scan_scratch(tokens.size)).named(kLabel);
  }
  const Tensor last = small(torch, OpKind::compare, {batch}, DType::boolean, kLabel);
  small(torch, OpKind::all, {}, DType::boolean, kLabel);
}

/// torch.arange(n) + 0
Tensor indices(Torch& torch, Dim n) {
  Tensor i = torch::arange(torch, n);
  i = torch::add(i, 0.0);
  return i;
}

/// result & part, where the result starts as a single True (and_masks)
Tensor both(const Tensor& result, const Tensor& part) { return torch::compare(result, part); }

Tensor one(Torch& torch) { return torch::full(torch, {}, DType::boolean, 1); }

/// kv_idx > q_idx - window, and kv_idx <= q_idx
Tensor sliding_causal(Torch& torch, const Tensor& q, const Tensor& kv) {
  Tensor result = one(torch);
  {
    Tensor inside;
    {
      const Tensor shifted = torch::add(q, 0.0);
      inside = torch::compare(kv, shifted);
    }
    result = both(result, inside);
  }
  {
    const Tensor causal = torch::compare(kv, q);
    result = both(result, causal);
  }
  return result;
}

/// q_idx.new_ones(()) where and_masks runs under vmap: one for each query.
Tensor one_each(Torch& torch, const Tensor& q) { return torch::full(torch, q.shape(), DType::boolean, 1); }

/// kv_idx <= q_idx, and True
Tensor causal_and_true(Torch& torch, const Tensor& q, const Tensor& kv) {
  Tensor result = one_each(torch, q);
  const auto narrow_to = [&](Tensor part) {
    Tensor narrowed = both(result, part);
    part.reset();
    result = std::move(narrowed);
  };
  narrow_to(torch::compare(kv, q));
  narrow_to(one(torch));
  return result;
}

/// padding_mask[batch_idx, kv_idx]: both indices are expanded and copied.
Tensor look_up(Torch& torch, Dim batch, Dim tokens) {
  constexpr const char* kLabel = "indices into the padding mask";
  const Shape shape{batch, Dim{}, Dim{}, tokens};
  const Tensor rows = small(torch, OpKind::index, shape, DType::int64, kLabel);
  const Tensor columns = small(torch, OpKind::index, shape, DType::int64, kLabel);
  return small(torch, OpKind::index, shape, DType::boolean, "padding, by key");
}

/// Expanded to the batch in the end, which costs nothing here and a mask for every sequence where it becomes a float mask.
Tensor boolean_mask(Torch& torch, const MaskRequest& request, Dim batch, Dim tokens, const Tensor& padding) {
  const Tensor batch_arange = torch::arange(torch, batch);
  const Tensor head_arange = torch::arange(torch, Dim{});
  const Tensor q_arange = indices(torch, tokens);
  const Tensor kv_arange = indices(torch, tokens);
  const Tensor q = torch::unsqueeze(torch::unsqueeze(torch::unsqueeze(q_arange, 0), 0), 3);
  const Tensor kv = torch::unsqueeze(torch::unsqueeze(torch::unsqueeze(kv_arange, 0), 0), 0);
  const auto causal = [&] {
    if (request.and_true) return causal_and_true(torch, q, kv);
    return request.window > 0 ? sliding_causal(torch, q, kv) : torch::compare(kv, q);
  };
  const Shape shape{batch, Dim{}, tokens, tokens};
  if (!padding) return torch::expand(causal().named("attention mask of the model"), shape);
  Tensor result = request.and_true ? one_each(torch, q) : one(torch);
  {
    const Tensor part = causal();
    result = both(result, part);
  }
  {
    const Tensor part = look_up(torch, batch, tokens);
    result = both(result, part);
  }
  result.named("attention mask of the model");
  return torch::expand(result, shape);
}

}  // namespace

Tensor make_causal_mask(Torch& torch, const MaskRequest& request, Dim batch, Dim tokens, const Tensor& attention_mask,
                        const Tensor& position_ids) {
  Tensor padding;
  if (attention_mask) padding = torch::to(attention_mask, DType::boolean).named("attention mask, boolean", Category::inputs);
  if (position_ids && !attention_mask && !request.has_cache) look_for_packed_sequences(torch, batch, tokens);
  if (!request.eager) {
    const bool local = !request.flash && request.window > 0 && tokens.size >= request.window;
    if (!local && !request.and_true) {
      if (padding) small(torch, OpKind::all, {}, DType::boolean, "whether nothing is padded");
      if (!padding || !request.padded) return {};
    }
    return boolean_mask(torch, request, batch, tokens, padding);
  }
  const Tensor allowed = boolean_mask(torch, request, batch, tokens, padding);
  const Tensor zero = torch::full(torch, {}, request.dtype, 0);
  const Tensor least = torch::full(torch, {}, request.dtype, 0);
  return torch::where(allowed, zero, least).named("attention mask of the model, additive");
}

}  // namespace whatfits::hf
