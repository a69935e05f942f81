// torch.nn.functional.scaled_dot_product_attention: which of its implementations runs, and the two fused ones.
// Sizes and the order of their buffers: kernel_sizes.h.
#include "torch/ops/attention.h"

#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/checkpoint.h"
#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

struct AttentionBackward : Node {
  using Node::Node;
  Saved bias, query, key, value, logsumexp, output;
  bool dropout = false;
  double scaled_for = 1;  ///< head size by whose square root the scores are divided: that before padding
  void release() override {
    bias.reset();
    key.reset();
    query.reset();
    value.reset();
    logsumexp.reset();
    output.reset();
  }
};

Tensor swapped(const Tensor& x) { return transpose(x, 1, 2); }

/// [B, NH, T, D] that lies in memory as [B, T, NH, D].
Tensor empty_heads_inside(Torch& torch, OpKind op, const Shape& shape, DType dtype) {
  Shape memory = shape;
  std::swap(memory[1], memory[2]);
  Strides strides = contiguous_strides(memory);
  std::swap(strides[1], strides[2]);
  return torch.empty_strided(op, shape, strides, dtype);
}

Tensor empty_like(OpKind op, const Tensor& x) {
  return x.torch().empty_strided(op, x.shape(), like_strides(x.shape(), x.strides()), x.dtype());
}

FlashAttention flash_sizes(const Tensor& q, bool dropout) {
  return flash_attention(q.size(0).size, q.size(1).size, q.size(2).size, q.size(3).size, dropout, q.torch().device.sm_count);
}

struct FlashBackward final : AttentionBackward {
  using AttentionBackward::AttentionBackward;
  Saved rng_state;  ///< the package's alone: PyTorch keeps its own on the host
  bool package = false;
  void release() override {
    if (package) {  // as ctx.save_for_backward() was given them
      query.reset();
      key.reset();
      value.reset();
      output.reset();
    }
    AttentionBackward::release();
    rng_state.reset();
  }
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    constexpr OpKind op = OpKind::sdpa_flash_backward;
    const Tensor k = key.unpack();
    const Tensor q = query.unpack();
    const Tensor v = value.unpack();
    const Tensor lse = logsumexp.unpack();
    const Tensor o = output.unpack();
    const Tensor grad = contiguous(swapped(grads[0]));
    const Tensor o_inside = contiguous(swapped(o));
    Tensor dq = empty_like(op, q);
    Tensor dk = empty_like(op, k);
    Tensor dv = empty_like(op, v);
    const FlashAttention sizes = flash_sizes(q, dropout);
    {
      const Tensor softmax_d = torch.scratch(op, sizes.softmax_d).named("flash attention: row sums of gradient times output");
      const Tensor accumulator = torch.scratch(op, sizes.dq_accumulator).named("flash attention: float32 gradient of the query");
      Tensor dk_expanded, dv_expanded;
      const Frame expanded{&dv_expanded, &dk_expanded};
      if (k.size(1).size != q.size(1).size) {
        // Grouped heads: each query head has its own gradient of the key and the value, summed afterwards.
        const Shape shape{q.size(0), k.size(2), q.size(1), q.size(3)};
        dk_expanded = torch.empty(op, shape, q.dtype()).named("flash attention: gradient of the key, by query head");
        dv_expanded = torch.empty(op, shape, q.dtype()).named("flash attention: gradient of the value, by query head");
      }
      torch.recorder.op({.kind = op, .scalar = scaled_for}, {grad.id(), q.id(), k.id(), v.id(), o_inside.id(), lse.id()},
                        {dq.id(), dk.id(), dv.id()}, {softmax_d.id(), accumulator.id()});
    }
    out = {std::move(dq), std::move(dk), std::move(dv)};
  }
};

struct EfficientBackward final : AttentionBackward {
  using AttentionBackward::AttentionBackward;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    constexpr OpKind op = OpKind::sdpa_efficient_backward;
    const Tensor k = key.unpack();
    const Tensor q = query.unpack();
    const Tensor v = value.unpack();
    const Tensor lse = logsumexp.unpack();
    const Tensor o = output.unpack();
    const EfficientAttention sizes = efficient_attention(q.size(0).size, q.size(1).size, q.size(2).size, q.size(3).size, size_of(q.dtype()),
                                                         dropout, torch.device.compute_capability);
    Tensor dq = empty_heads_inside(torch, op, q.shape(), q.dtype());
    Tensor dk = empty_heads_inside(torch, op, k.shape(), k.dtype());
    Tensor dv = empty_heads_inside(torch, op, v.shape(), v.dtype());
    constexpr const char* kDelta = "attention backward: row sums of gradient times output";
    Tensor delta;
    if (sizes.delta_outside) {
      const Tensor g32 = to(grads[0], DType::float32);
      const Tensor o32 = to(o, DType::float32);
      const Tensor product = empty_like(OpKind::mul, g32);
      product.named("attention backward: gradient times output");
      torch.recorder.op({.kind = OpKind::mul}, {g32.id(), o32.id()}, {product.id()});
      const Shape rows{q.size(0), q.size(1), q.size(2)};
      delta = torch.empty(OpKind::sum, rows, DType::float32).named(kDelta);
      torch.recorder.op({.kind = OpKind::sum, .flags = op_flags::last_dimension}, {product.id()}, {delta.id()});
      if (q.size(1).size > 1 && q.size(2).size > 1) {
        Tensor transposed = torch.empty(OpKind::copy, rows, DType::float32).named(kDelta);
        torch.recorder.op({.kind = OpKind::copy}, {delta.id()}, {transposed.id()});
        delta = std::move(transposed);
      }
    } else {
      delta = torch.scratch(op, sizes.delta).named(kDelta);
    }
    const OpInfo info{.kind = op, .scalar = scaled_for};
    const std::initializer_list<TensorId> inputs{grads[0].id(), q.id(), k.id(), v.id(), o.id(), lse.id()};
    if (sizes.workspace != 0) {
      const Tensor workspace = torch.scratch(op, sizes.workspace).named("memory-efficient attention workspace");
      torch.recorder.op(info, inputs, {dq.id(), dk.id(), dv.id()}, {delta.id(), workspace.id()});
      delta.reset();
    } else {
      torch.recorder.op(info, inputs, {dq.id(), dk.id(), dv.id()}, {delta.id()});
    }
    delta.reset();
    out = {std::move(dq), std::move(dk), std::move(dv)};
  }
};

template <class N>
void save_inputs(const Ref<N>& node, const Tensor& q, const Tensor& k, const Tensor& v, double scaled_for, double dropout) {
  if (!node) return;
  node->scaled_for = scaled_for;
  node->dropout = dropout > 0;
  node->key.save(k);
  node->query.save(q);
  node->value.save(v);
}

double head_size(const Tensor& q) { return static_cast<double>(q.size(3).size); }

/// `package`: flash-attn's own function instead of PyTorch's copy of it. Source: flash_attn_interface.py and csrc/flash_attn/flash_api.cpp
/// of flash-attn 2.8, for heads of at most 128 or of a multiple of 64, where the two round alike.
Tensor flash(const Tensor& q, const Tensor& k, const Tensor& v, double scaled_for, double dropout, bool package = false) {
  if (!q || !k || !v) return {};
  constexpr OpKind op = OpKind::sdpa_flash;
  Torch& torch = q.torch();
  const auto node = make_node<FlashBackward>(torch, {&q, &k, &v});
  save_inputs(node, q, k, v, scaled_for, dropout);
  if (torch.stopped) return {};
  Tensor out, lse, rng_state;
  if (!recall(torch, {&out, &lse})) {
    const FlashAttention sizes = flash_sizes(q, dropout > 0);
    out = empty_like(op, q);
    lse = torch.empty(op, {q.size(0), q.size(1), q.size(2)}, DType::float32);
    lse.named("attention log-sum-exp");
    const auto seed = [&] {
      if (package) rng_state = torch.empty(op, {Dim{2}}, DType::int64).named("flash attention: random seed and offset");
    };
    if (sizes.splits > 1) {
      const Tensor parts = torch.scratch(op, sizes.logsumexp_parts).named("flash attention: log-sum-exp of the splits");
      const Tensor outputs = torch.scratch(op, sizes.output_parts).named("flash attention: outputs of the splits");
      seed();
      torch.recorder.op({.kind = op, .scalar = scaled_for}, {q.id(), k.id(), v.id()}, {out.id(), lse.id()}, {parts.id(), outputs.id()});
    } else {
      seed();
      torch.recorder.op({.kind = op, .scalar = scaled_for}, {q.id(), k.id(), v.id()}, {out.id(), lse.id()});
    }
    keep(torch, {&out, &lse});
  }
  if (node) {
    node->logsumexp.save_output(lse);
    node->output.save_output(out);
    node->package = package;
    if (package) node->rng_state.save_output(rng_state);
  }
  if (torch.stopped) return {};
  return attach(std::move(out), node);
}

Tensor efficient(const Tensor& q, const Tensor& k, const Tensor& v, const Tensor& bias, double dropout) {
  if (!q || !k || !v) return {};
  constexpr OpKind op = OpKind::sdpa_efficient;
  Torch& torch = q.torch();
  const auto node = make_node<EfficientBackward>(torch, {&q, &k, &v});
  if (node) node->bias.save(bias);
  const double scaled_for = head_size(q);
  save_inputs(node, q, k, v, scaled_for, dropout);
  if (torch.stopped) return {};
  Tensor out, lse;
  if (!recall(torch, {&out, &lse})) {
    const EfficientAttention sizes = efficient_attention(q.size(0).size, q.size(1).size, q.size(2).size, q.size(3).size, size_of(q.dtype()),
                                                         dropout > 0, torch.device.compute_capability);
    out = empty_heads_inside(torch, op, q.shape(), q.dtype());
    if (q.requires_grad()) lse = torch.scratch(op, sizes.logsumexp).named("attention log-sum-exp");
    Tensor accumulator;
    if (sizes.output_accumulator != 0)
      accumulator = torch.scratch(op, sizes.output_accumulator).named("memory-efficient attention: float32 output");
    OpInfo info{.kind = op, .inputs = 3, .outputs = 1, .scalar = scaled_for};
    std::vector<TensorId> operands{q.id(), k.id(), v.id(), out.id()};
    if (lse) {
      operands.push_back(lse.id());
      ++info.outputs;
    }
    if (accumulator) {
      operands.push_back(accumulator.id());
      ++info.scratch;
    }
    torch.recorder.op(info, operands);
    accumulator.reset();
    keep(torch, {&out, &lse});
  }
  if (node) {
    node->logsumexp.save_output(lse);
    node->output.save_output(out);
  }
  if (torch.stopped) return {};
  return attach(std::move(out), node);
}

// ---- head sizes that flash attention does not take: padded to a multiple of 8 and cut back -------------------------------------------

struct PadBackward final : Node {
  using Node::Node;
  Dim last;
  void apply(Torch&, Grads& grads, Grads& out) override { out.push_back(clone(slice(grads[0], 3, last))); }
};

struct SliceBackward final : Node {
  using Node::Node;
  const Shape* shape = nullptr;  ///< of one of the program's layouts
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    Tensor whole = torch.empty(OpKind::copy, *shape, grads[0].dtype());
    torch.recorder.op({.kind = OpKind::copy}, {grads[0].id()}, {whole.id()});
    out.push_back(std::move(whole));
  }
};

Tensor pad_last(const Tensor& x, Dim wide) {
  if (!x) return {};
  Torch& torch = x.torch();
  const auto node = make_node<PadBackward>(torch, {&x});
  if (node) node->last = x.size(3);
  Shape shape = x.shape();
  shape[3] = wide;
  Tensor out = torch.empty(OpKind::copy, shape, x.dtype());
  out.named("attention operand, padded");
  torch.recorder.op({.kind = OpKind::copy}, {x.id()}, {out.id()});
  return attach(std::move(out), node);
}

Tensor cut_last(const Tensor& x, Dim narrow) {
  if (!x) return {};
  const auto node = make_node<SliceBackward>(x.torch(), {&x});
  if (node) node->shape = &x.shape();
  return attach(slice(x, 3, narrow), node);
}

Tensor padded_flash(const Tensor& q, const Tensor& k, const Tensor& v, double dropout) {
  if (!q) return {};
  const Dim last = q.size(3);
  if (last.size % 8 == 0) return flash(q, k, v, head_size(q), dropout);
  const Dim wide{(last.size + 7) / 8 * 8, last.letters};
  const Tensor a = pad_last(q, wide);
  const Tensor b = pad_last(k, wide);
  const Tensor c = pad_last(v, wide);
  return cut_last(flash(a, b, c, head_size(q), dropout), last);
}

// ---- masks -------------------------------------------------------------------------------------------------------------------------

/// convert_boolean_attn_mask: 0 where it is true and -inf elsewhere.
Tensor additive(const Tensor& mask, DType dtype) {
  Torch& torch = mask.torch();
  if (torch.stopped) return {};
  const Tensor blocked = full(torch, {}, dtype, 0);
  const Tensor allowed = full(torch, {}, dtype, 0);
  return where(mask, allowed, blocked).named("attention mask, additive");
}

/// preprocess_mask: rows padded to a multiple of 8 elements.
Tensor aligned(const Tensor& mask) {
  constexpr std::int64_t alignment = 8;
  bool fits = true;
  for (int i = 0; i + 1 < mask.rank(); ++i) fits = fits && mask.stride(i) % alignment == 0;
  if (fits) return mask;
  const Dim keys = mask.size(-1);
  return slice(pad_right(mask, alignment - keys.size % alignment), mask.rank() - 1, keys).named("attention mask, additive, padded");
}

SdpaBackend choose(const Tensor& q, const Tensor& k, const Tensor& mask, const SdpaCall& call) {
  const AttentionCase facts{.element_bytes = size_of(q.dtype()),
                            .bfloat = q.dtype() == DType::bfloat16,
                            .head_size = q.size(3).size,
                            .training = q.requires_grad() || k.requires_grad(),
                            .dropout = call.dropout > 0};
  const int capability = q.torch().device.compute_capability;
  if (!mask && takes_flash(facts, capability)) return SdpaBackend::flash;
  if (q.size(1).size == k.size(1).size && takes_efficient(facts, capability)) return SdpaBackend::efficient;
  return SdpaBackend::math;
}

}  // namespace

Tensor flash_attention_package(const Tensor& q, const Tensor& k, const Tensor& v, double dropout) {
  if (!q || !k || !v) return {};
  return flash(q, k, v, head_size(q), dropout, true);
}

Tensor scaled_dot_product_attention(const Tensor& query, const Tensor& key, const Tensor& value, const Tensor& mask, const SdpaCall& call) {
  if (!query || !key || !value) return {};
  const Tensor cast_mask = autocast_to_lower(mask);
  const Tensor v = autocast_to_lower(value);
  const Tensor k = autocast_to_lower(key);
  const Tensor q = autocast_to_lower(query);
  if (!q || !k || !v) return {};
  Torch& torch = q.torch();
  const With no_autocast(torch.autocast.enabled, false);
  const SdpaBackend backend = call.backend == SdpaBackend::automatic ? choose(q, k, mask, call) : call.backend;
  Tensor bias;
  if (mask) {
    bias = mask.dtype() == DType::boolean ? additive(mask, q.dtype()) : cast_mask;
    if (!bias) return {};
  }
  switch (backend) {
    case SdpaBackend::flash:
      torch.note("scaled_dot_product_attention runs flash attention");
      return padded_flash(q, k, v, call.dropout);
    case SdpaBackend::efficient:
      torch.note("scaled_dot_product_attention runs memory-efficient attention");
      if (bias) bias = aligned(bias);
      return efficient(q, k, v, bias, call.dropout);
    default:
      torch.note("scaled_dot_product_attention runs its math implementation: whole score matrices");
      return math_attention(q, k, v, bias, call);
  }
}

}  // namespace whatfits::torch
