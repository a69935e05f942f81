#include "torch/ops/quantized.h"

#include <string>

#include "torch/autograd.h"
#include "torch/reduce.h"

namespace whatfits::torch {

namespace {

constexpr std::int64_t kWeightsToScale = 64;
constexpr std::int64_t kScalesToScale = 256;

Tensor quantised_part(Torch& torch, OpKind op, const Shape& shape, DType dtype, const std::string& label, Category category) {
  Tensor t = torch.empty(op, shape, dtype);
  t.named(label, category);
  return t;
}

/// dequantize_4bit: the scales in float32, then the weight; the scales go when it is there.
Tensor unpacked(const Weight4bit& weight) {
  Torch& torch = weight.packed.torch();
  constexpr OpKind op = OpKind::dequantize_4bit;
  const Tensor absmax = torch.empty(op, weight.absmax.shape(), DType::float32);
  absmax.named("scales of a 4-bit weight, in float32");
  torch.recorder.op({.kind = op}, {weight.absmax.id(), weight.nested_absmax.id(), weight.nested_code.id()}, {absmax.id()});
  Tensor out = torch.empty(op, weight.shape, weight.dtype);
  out.named("4-bit weight, unpacked");
  torch.recorder.op({.kind = op}, {weight.packed.id(), absmax.id(), weight.code.id()}, {out.id()});
  return out;
}

struct MatMul4BitBackward final : Node {
  using Node::Node;
  const Weight4bit* weight = nullptr;
  void apply(Torch&, Grads& grads, Grads& out) override {
    const Tensor w = to(unpacked(*weight), grads[0].dtype());
    out.push_back(matmul(grads[0], w));
  }
};

}  // namespace

Weight4bit quantize_4bit(const Tensor& weight, const Shape& shape, Tensor& dynamic_code, std::string_view name) {
  Torch& torch = weight.torch();
  constexpr OpKind op = OpKind::quantize_4bit;
  constexpr DType byte = DType::uint8;
  constexpr DType wide = DType::float32;
  const std::string label(name);
  const std::string scales = label + "'s scales";
  const std::int64_t n = weight.elements();
  const Dim blocks{(n + kWeightsToScale - 1) / kWeightsToScale};
  Weight4bit w;
  w.shape = shape;
  w.dtype = weight.dtype();
  Tensor absmax = quantised_part(torch, op, {blocks}, wide, scales + ", in float32", Category::temporaries);
  w.packed = quantised_part(torch, op, {Dim{(n + 1) / 2}, Dim{}}, byte, label, Category::parameters);
  torch.recorder.op({.kind = op}, {weight.id()}, {w.packed.id(), absmax.id()});
  w.code = quantised_part(torch, op, {Dim{16}}, wide, scales + ": the 16 values", Category::parameters);
  {
    // data.div_(data.abs().max())
    const Tensor largest = torch.empty(op, {}, wide);
    const Tensor absolute = torch.empty(op, {Dim{16}}, wide);
    torch.recorder.op({.kind = op}, {}, {w.code.id()}, {absolute.id(), largest.id()});
  }
  w.offset = quantised_part(torch, op, {}, wide, scales + ": their mean", Category::parameters);
  run_sum(absmax, w.offset, full_sum(blocks.size, size_of(wide), {torch.device.sm_count, torch.device.compute_capability}));
  {
    const Tensor centred = quantised_part(torch, op, {blocks}, wide, scales + ", less their mean", Category::temporaries);
    if (!dynamic_code) dynamic_code = quantised_part(torch, op, {Dim{kScalesToScale}}, wide, "table of 256 scales", Category::parameters);
    w.nested_absmax = quantised_part(torch, op, {Dim{(blocks.size + kScalesToScale - 1) / kScalesToScale}}, wide,
                                     scales + ": scales of these", Category::parameters);
    w.absmax = quantised_part(torch, op, {blocks}, byte, scales, Category::parameters);
    w.nested_code = quantised_part(torch, op, {Dim{256}}, wide, scales + ": table of 256", Category::parameters);
    torch.recorder.op({.kind = op}, {absmax.id(), w.offset.id(), dynamic_code.id()},
                      {w.absmax.id(), w.nested_absmax.id(), w.nested_code.id()}, {centred.id()});
  }
  absmax.reset();
  return w;
}

Tensor matmul_4bit(const Tensor& x, const Weight4bit& weight, const Tensor& bias) {
  if (!x) return {};
  Torch& torch = x.torch();
  const auto node = make_node<MatMul4BitBackward>(torch, {&x});
  if (node) node->weight = &weight;
  if (torch.stopped) return {};
  Tensor out;
  {
    const With no_grad(torch.grad_enabled, false);
    const Tensor w = to(unpacked(weight), x.dtype());
    out = linear(x, w, bias);
  }
  return attach(std::move(out), node);
}

}  // namespace whatfits::torch
