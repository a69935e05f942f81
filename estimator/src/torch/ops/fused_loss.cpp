// Liger's fused linear cross-entropy: the head and the loss in one function of autograd that never has all logits.
//
// Source: Liger Kernel's ops/fused_linear_cross_entropy.py, as it runs on PyTorch before 2.8.
#include <algorithm>

#include "torch/autograd.h"
#include "torch/kernel_sizes.h"
#include "torch/ops.h"
#include "torch/reduce.h"

namespace whatfits::torch {

namespace {

struct FusedLinearCrossEntropyBackward final : Node {
  using Node::Node;
  Saved grad_input;
  Saved grad_weight;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    Tensor dx = grad_input.unpack();
    Tensor dw = wants(1) ? grad_weight.unpack() : Tensor();
    {
      // torch.equal(grad_output, torch.tensor(1.0)): another value scales both gradients in place
      const Tensor one = full(torch, {}, DType::float32, 1);
      const Tensor same = compare(grads[0], one);
      const Tensor all = torch.empty(OpKind::all, {}, DType::boolean);
      torch.recorder.op({.kind = OpKind::all}, {same.id()}, {all.id()});
    }
    out.push_back(std::move(dx));
    out.push_back(std::move(dw));
  }
  void release() override {
    grad_input.reset();
    grad_weight.reset();
  }
};

}  // namespace

std::int64_t fused_loss_chunk(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width) {
  const std::int64_t factor = (vocabulary + width - 1) / width;
  const std::int64_t wanted = (tokens + factor - 1) / factor;
  std::int64_t chunk = 1;
  while (chunk < wanted) chunk *= 2;
  return chunk;
}

Tensor fused_linear_cross_entropy(const Tensor& x, const Tensor& weight, const Tensor& target) {
  if (!x || !weight || !target) return {};
  Torch& torch = x.torch();
  const Multiprocessors card{torch.device.sm_count, torch.device.compute_capability};
  const auto node = make_node<FusedLinearCrossEntropyBackward>(torch, {&x, &weight});
  const std::int64_t tokens = x.size(0).size;
  const std::int64_t chunk = fused_loss_chunk(tokens, weight.size(0).size, weight.size(1).size);
  Tensor loss;
  {
    const With no_grad(torch.grad_enabled, false);
    Tensor grad_input, grad_weight, target_mask, logits, losses, grad_logits, grad_logits_t;
    const Frame frame{&target_mask, &logits, &losses, &grad_logits, &grad_logits_t};
    grad_input = zeros_like(x);
    grad_input.named("gradient of the head's input, made in forward", Category::activations);
    if (x.requires_grad() && weight.requires_grad()) {
      grad_weight = zeros_like(weight);
      grad_weight.named("gradient of the head's weight, made in forward", Category::gradients);
    }
    losses = full(torch, {x.size(0)}, DType::float32, 0);
    losses.named("loss of each token");
    target_mask = eq(target, -100);
    target_mask.named("which tokens count");
    {
      const Tensor counted = torch.empty(OpKind::sum, {}, DType::int64);
      const Tensor ones = to(target_mask, DType::int64);  // a sum of booleans has no kernel of its own
      run_sum(ones, counted, full_sum(tokens, size_of(DType::int64), card));
    }
    for (std::int64_t begin = 0; begin < tokens; begin += chunk) {
      const Dim rows{std::min(chunk, tokens - begin)};
      const Tensor part = alias(x, {rows, x.size(1)}, x.strides(), x.offset() + begin * x.stride(0));
      logits = matmul(part, t(weight));
      logits.named("logits of a chunk of tokens", Category::logits);
      // The kernel writes each logit's gradient where the logit was.
      torch.recorder.op({.kind = OpKind::fused_cross_entropy}, {target.id()}, {logits.id(), losses.id()});
      grad_logits = logits;
      if (x.requires_grad()) {
        const Tensor product = matmul(grad_logits, weight);
        product.named("gradient of a chunk of hidden states");
        torch.recorder.op({.kind = OpKind::copy}, {product.id()}, {grad_input.id()});
      }
      if (!grad_weight) continue;
      grad_logits_t = t(grad_logits);  // a name that holds a chunk's logits until the next one has its own
      Tensor product = matmul(t(grad_logits), part);
      product.named("gradient of the head's weight from a chunk");
      product = to(product, DType::float32);
      if (weight.dtype() != DType::float32) product.named("gradient of the head's weight from a chunk, in float32");
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
