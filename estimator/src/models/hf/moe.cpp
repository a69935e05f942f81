#include "models/hf/moe.h"

#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::hf {

namespace {

Tensor small(torch::Torch& torch, OpKind op, const Shape& shape, DType dtype) {
  if (torch.stopped) return {};
  Tensor t = torch.empty(op, shape, dtype);
  t.named("sorting tokens by expert");
  torch.recorder.op({.kind = op}, {}, {t.id()});
  return t;
}

}  // namespace

Experts make_experts(Builder& build, const std::string& name, Dim experts, Dim width, Dim inner, Activation activation) {
  Experts e;
  e.gate_up_proj = build.parameter(name + ".gate_up_proj", {experts, 2 * inner, width});
  e.down_proj = build.parameter(name + ".down_proj", {experts, width, inner});
  e.activation = activation;
  return e;
}

// Pairs of token and expert sorted by expert, two products, and back.
Tensor Experts::operator()(const Tensor& hidden, const torch::TopK& top) const {
  if (!hidden || !top.values) return {};
  torch::Torch& torch = hidden.torch();
  const Dim experts = gate_up_proj.size(0);
  const Dim tokens = hidden.size(0);
  const Dim k = top.values.size(1);
  const Dim pairs{tokens.size * k.size};
  const Tensor sample_weights = torch::view(top.values, {pairs});
  const Tensor expert_ids = small(torch, OpKind::index, {pairs}, DType::int64);
  const Tensor perm = small(torch, OpKind::index, {pairs}, DType::int64);
  {
    const Tensor unsorted = small(torch, OpKind::arange, {pairs}, DType::int64);
    const Bytes scratch = torch::row_sort_scratch(pairs.size, torch.device.compute_capability);
    if (scratch > 0 && !torch.stopped) torch.scratch(OpKind::index, scratch).named("sort scratch");
  }
  Tensor selected;
  {
    const Tensor rows = small(torch, OpKind::div_scalar, {pairs}, DType::int64);
    selected = torch::index(hidden, 0, rows);
  }
  selected.named("tokens, sorted by expert");
  const Tensor weights = torch::index(sample_weights, 0, perm);
  const Tensor histogram_input = small(torch, OpKind::copy, {pairs}, DType::float32);  // int32: as wide
  const Tensor per_expert = small(torch, OpKind::sum, {experts}, DType::float32);
  const Tensor offsets = small(torch, OpKind::sum, {experts}, DType::float32);
  if (!torch.stopped) torch.scratch(OpKind::sum, 767).named("scan scratch");
  const Tensor sentinel = small(torch, OpKind::compare, {pairs, Dim{}}, DType::boolean);
  torch::masked_fill_(selected, sentinel);
  Tensor proj = torch::grouped_mm(selected, gate_up_proj, offsets);
  proj.named("expert hidden layer, gate and up");
  {
    const auto halves = torch::chunk2(proj);
    Tensor gated = activate(activation, halves[0]);
    gated.named("expert gate, activated");
    proj = torch::mul(gated, halves[1]);
  }
  proj.named("expert hidden layer");
  proj = torch::grouped_mm(proj, down_proj, offsets);
  proj.named("expert output");
  Tensor weighted = torch::mul(proj, torch::unsqueeze(weights, 1));
  torch::masked_fill_(weighted, sentinel);
  const Tensor inverse = small(torch, OpKind::index, {pairs}, DType::int64);
  small(torch, OpKind::arange, {pairs}, DType::int64);
  weighted = torch::index(weighted, 0, inverse);
  const Tensor sum = torch::sum_groups(weighted, tokens, k);
  return torch::to(sum, hidden.dtype());
}

}  // namespace whatfits::hf
