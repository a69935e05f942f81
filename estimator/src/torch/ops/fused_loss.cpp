// Liger's fused linear cross-entropy: the head and the loss in one function of autograd that never has all logits.
//
// Source: Liger Kernel's ops/fused_linear_cross_entropy.py, as it runs on PyTorch before 2.8.
#include "torch/autograd.h"
#include "torch/ops.h"
#include "torch/reduce.h"

namespace whatfits::torch {

namespace {

struct FusedLinearCrossEntropyBackward final : Node {
  using Node::Node;
  Saved grad_input;
  Saved grad_weight;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor dx = grad_input.unpack();
    out.resize(2);
    if (wants(1)) out[1] = grad_weight.unpack();
    {
      // torch.equal(grad_output, torch.tensor(1.0))
      const Tensor one = full(torch, {}, DType::float32, 1);
      const Tensor same = compare(grads[0], one);
      const Tensor all = torch.empty(OpKind::all, {}, DType::boolean);
      torch.recorder.op({.kind = OpKind::all}, {same.id()}, {all.id()});
    }
    out[0] = dx;
  }
  void release() override {
    grad_input.reset();
    grad_weight.reset();
  }
};

/// The power of two at or above tokens / ceil(V / C).
std::int64_t chunk_of(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width) {
  const std::int64_t factor = (vocabulary + width - 1) / width;
  const std::int64_t wanted = (tokens + factor - 1) / factor;
  std::int64_t chunk = 1;
  while (chunk < wanted) chunk *= 2;
  return chunk;
}

}  // namespace

Tensor fused_linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target) {
  if (!x || !weight || !target) return {};
  Torch& torch = x.torch();
  const Multiprocessors card{torch.device.sm_count, torch.device.compute_capability};
  const auto node = make_node<FusedLinearCrossEntropyBackward>(torch, {&x, &weight});
  if (torch.stopped) return {};
  const std::int64_t tokens = x.size(0).size;
  const std::int64_t chunk = chunk_of(tokens, weight.size(0).size, weight.size(1).size);
  Tensor loss;
  {
    const With no_grad(torch.grad_enabled, false);
    Tensor target_mask, logits, losses, grad_logits;
    const Frame frame{&target_mask, &logits, &losses, &grad_logits};
    const Tensor grad_input = zeros_like(x);
    grad_input.named("gradient of the head's input, made in forward", Category::activations);
    Tensor grad_weight;
    if (weight.requires_grad()) {
      grad_weight = zeros_like(weight);
      grad_weight.named("gradient of the head's weight, made in forward", Category::gradients);
    }
    losses = full(torch, {x.size(0)}, DType::float32, 0);
    losses.named("loss of each token");
    target_mask = eq(target, -100);
    {
      const Tensor counted = torch.empty(OpKind::sum, {}, DType::int64);
      run_sum(target_mask, counted, full_sum(tokens, size_of(DType::boolean), card));
    }
    for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
      const Dim rows{tokens - begin < chunk ? tokens - begin : chunk};
      const Tensor part = alias(x, {rows, x.size(1)}, x.strides(), x.offset() + begin * x.stride(0));
      logits = matmul(part, t(weight));
      logits.named("logits of a chunk of tokens", Category::logits);
      torch.recorder.op({.kind = OpKind::fused_cross_entropy}, {target.id()}, {logits.id(), losses.id()});
      grad_logits = logits;
      {
        const Tensor product = matmul(grad_logits, weight);
        product.named("gradient of a chunk of hidden states");
        torch.recorder.op({.kind = OpKind::copy}, {product.id()}, {grad_input.id()});
      }
      if (!grad_weight) continue;
      Tensor product = matmul(t(grad_logits), part);
      product.named("gradient of the head's weight from a chunk");
      product = to(product, DType::float32);
      product.named("gradient of the head's weight from a chunk, in float32");
      add_(grad_weight, product);
    }
    loss = torch.empty(OpKind::sum, {}, DType::float32);
    loss.named("loss");
    run_sum(losses, loss, full_sum(tokens, size_of(DType::float32), card));
    if (node) {
      node->grad_input.save(grad_input);
      if (grad_weight) node->grad_weight.save(grad_weight);
    }
  }
  return attach(std::move(loss), node);
}

}  // namespace whatfits::torch
