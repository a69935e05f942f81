#include "torch/autocast.h"
#include "torch/autograd.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

struct LogSoftmaxBackward final : Node {
  using Node::Node;
  Saved result;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor y = result.unpack();
    Tensor dx = torch.empty(OpKind::log_softmax_backward, y.shape(), y.dtype());
    dx.named("gradient of the logits");
    torch.recorder.op({.kind = OpKind::log_softmax_backward}, {grads[0].id(), y.id()}, {dx.id()});
    out.push_back(std::move(dx));
  }
  void release() override { result.reset(); }
};

struct NllLossBackward final : Node {
  using Node::Node;
  Saved self;
  Saved target;
  Saved total_weight;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor log_probs = self.unpack();
    const Tensor labels = target.unpack();
    const Tensor weight = total_weight.unpack();
    Tensor dx = torch.empty(OpKind::nll_loss_backward, log_probs.shape(), log_probs.dtype());
    dx.named("gradient of the log-probabilities");
    torch.recorder.op({.kind = OpKind::nll_loss_backward}, {grads[0].id(), log_probs.id(), labels.id(), weight.id()}, {dx.id()});
    out.push_back(std::move(dx));
  }
  void release() override {
    self.reset();
    target.reset();
    total_weight.reset();
  }
};

Tensor log_softmax(const Tensor& x) {
  Torch& torch = x.torch();
  const auto node = make_node<LogSoftmaxBackward>(torch, {&x});
  Tensor out = torch.empty(OpKind::log_softmax, x.shape(), x.dtype());
  out.named("log-probabilities");
  torch.recorder.op({.kind = OpKind::log_softmax}, {x.id()}, {out.id()});
  if (node) node->result.save_output(out);
  return attach(std::move(out), node);
}

Tensor nll_loss(const Tensor& input, const Tensor& target) {
  const Tensor x = autocast_to_float32(input);
  if (!(x.get() == input.get())) x.named("log-probabilities in float32");
  Torch& torch = x.torch();
  const auto node = make_node<NllLossBackward>(torch, {&x});
  if (node) {
    node->self.save(x);
    node->target.save(target);
  }
  Tensor loss = torch.empty(OpKind::nll_loss, {}, x.dtype());
  loss.named("loss");
  const Tensor total_weight = torch.empty(OpKind::nll_loss, {}, x.dtype());
  total_weight.named("weight of the loss");
  torch.recorder.op({.kind = OpKind::nll_loss}, {x.id(), target.id()}, {loss.id(), total_weight.id()});
  if (node) node->total_weight.save_output(total_weight);
  return attach(std::move(loss), node);
}

}  // namespace

// Not on autocast's own lists: log_softmax stays in the logits' type, only the loss is computed in float32.
Tensor cross_entropy(const Tensor& logits, const Tensor& target) {
  if (!logits || !target) return {};
  return nll_loss(log_softmax(logits), target);
}

}  // namespace whatfits::torch
