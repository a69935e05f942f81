#include "torch/autograd.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

struct SoftmaxBackward final : Node {
  using Node::Node;
  Saved result;
  DType input_dtype = DType::float32;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor y = result.unpack();
    Tensor dx = torch.empty_strided(OpKind::softmax_backward, y.shape(), like_strides(y.shape(), y.strides()), input_dtype);
    // The kernel wants grad * output as a tensor of its own.
    const Tensor product = torch.empty_strided(OpKind::softmax_backward, y.shape(), like_strides(y.shape(), y.strides()), y.dtype());
    product.named("softmax backward: gradient times output");
    torch.recorder.op({.kind = OpKind::softmax_backward}, {grads[0].id(), y.id()}, {dx.id()}, {product.id()});
    out.push_back(std::move(dx));
  }
  void release() override { result.reset(); }
};

}  // namespace

// On autocast's list of float32 results.
Tensor softmax(const Tensor& input) {
  if (!input) return {};
  return softmax(input, input.torch().autocast.enabled ? DType::float32 : input.dtype());
}

// bfloat16 scores are copied to float32 first; float16 scores have a kernel that reads them as they are (half_to_float).
Tensor softmax(const Tensor& input, DType dtype) {
  if (!input) return {};
  Torch& torch = input.torch();
  const bool fused_half = input.dtype() == DType::float16 && dtype == DType::float32;
  const Tensor x = fused_half ? input : to(input, dtype);
  if (!x) return {};
  const auto node = make_node<SoftmaxBackward>(torch, {&x});
  if (node) node->input_dtype = x.dtype();
  Tensor out =
      torch.empty_strided(OpKind::softmax, x.shape(), like_strides(x.shape(), x.strides()), fused_half ? DType::float32 : x.dtype());
  torch.recorder.op({.kind = OpKind::softmax}, {x.id()}, {out.id()});
  if (node) node->result.save_output(out);
  if (torch.stopped) return {};
  return attach(std::move(out), node);
}

}  // namespace whatfits::torch
