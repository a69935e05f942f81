#include "torch/checkpoint.h"

#include "torch/autocast.h"
#include "torch/autograd.h"

namespace whatfits::torch {

// First to last, whatever a standard library does with a vector.
CheckpointFrame::~CheckpointFrame() {
  for (Tensor& result : kept) result.reset();
}

bool recall(Torch& torch, std::initializer_list<Tensor*> results) {
  CheckpointFrame* frame = torch.recomputing;
  if (frame == nullptr || !frame->selective) return false;
  for (Tensor* result : results) *result = std::move(frame->kept[frame->taken++]);
  return true;
}

void keep(Torch& torch, std::initializer_list<const Tensor*> results) {
  CheckpointFrame* frame = torch.packing;
  if (frame == nullptr || !frame->selective) return;
  for (const Tensor* result : results) {
    frame->kept.push_back(*result ? detach(*result) : Tensor());
    if (*result) kept_for_backward(*result);
  }
}

bool dispatch_mode_enabled(const Torch& torch) {
  return (torch.packing != nullptr && torch.packing->selective) || (torch.recomputing != nullptr && torch.recomputing->selective);
}

Ref<CheckpointPlace> CheckpointFrame::pack() {
  Ref<CheckpointPlace> place(new CheckpointPlace(*this, places.size()));
  places.push_back(place.get());
  return place;
}

void CheckpointFrame::refill(Torch& torch, const Tensor& saved) {
  if (torch.stopped) return;
  kept_for_backward(saved);
  if (CheckpointPlace* place = places[filled]) place->value = detach(saved);
  if (++filled == places.size()) torch.stopped = true;
}

void CheckpointFrame::recompute(Torch& torch) {
  const std::int16_t layer = torch.recorder.layer();
  {
    const With filling(torch.recomputing, this);
    const With again(torch.recorder.recomputing, true);
    const With grad(torch.grad_enabled, true);
    const AutocastScope autocast(torch, autocast_enabled, autocast_dtype);
    run(input);
  }
  torch.stopped = false;
  recomputed = true;
  torch.recorder.layer(layer);
}

Tensor CheckpointPlace::unpack() {
  if (!frame->recomputed) frame->recompute(frame->input.torch());
  return std::move(value);
}

Tensor checkpoint(const Tensor& x, std::function<Tensor(const Tensor&)> run, bool selective) {
  if (!x) return {};
  Torch& torch = x.torch();
  const Ref<CheckpointFrame> frame(new CheckpointFrame(std::move(run), x));
  frame->autocast_enabled = torch.autocast.enabled;
  frame->autocast_dtype = torch.autocast.dtype;
  frame->selective = selective;
  kept_for_backward(x);
  if (selective) {
    torch.note(
        "selective checkpointing keeps the results of mm, addmm, bmm, baddbmm and of fused attention "
        "(create_selective_checkpoint_contexts with these)");
  }
  const With packing(torch.packing, frame.get());
  return frame->run(x);
}

namespace {

struct ReentrantBackward final : Node {
  using Node::Node;
  BlockOfTwo run;
  Saved input, positional;
  const Layout* second_layout = nullptr;  ///< of the second result, if there is one
  bool autocast_enabled = false;
  DType autocast_dtype = DType::bfloat16;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    Tensor second_grad;
    if (second_layout != nullptr) {
      second_grad = torch.empty(OpKind::fill, second_layout->shape, second_layout->dtype);
      second_grad.named("gradient of a second result that nobody used");
      torch.recorder.op({.kind = OpKind::fill}, {}, {second_grad.id()});
    }
    const Tensor x = input.unpack();
    Tensor detached = detach(x);
    detached->leaf_requires_grad = x.requires_grad();
    Tensor output, second;
    const Frame frame{&detached, &output, &second};
    {
      const With grad(torch.grad_enabled, true);
      const With again(torch.recorder.recomputing, true);
      const AutocastScope autocast(torch, autocast_enabled, autocast_dtype);
      output = run(detached, positional.unpack(), second);
    }
    backward_from({{&output, &grads[0]}, {&second, &second_grad}});
    out.push_back(std::move(detached->grad));
  }
  void release() override {
    input.reset();
    positional.reset();
  }
};

}  // namespace

Tensor checkpoint_reentrant(const Tensor& x, std::function<Tensor(const Tensor&)> run) {
  const Tensor none;
  Tensor second;
  return checkpoint_reentrant(x, none, second, [run = std::move(run)](const Tensor& input, const Tensor&, Tensor&) { return run(input); });
}

Tensor checkpoint_reentrant(const Tensor& x, const Tensor& positional, Tensor& second, BlockOfTwo run) {
  if (!x) return {};
  Torch& torch = x.torch();
  const auto node = make_node<ReentrantBackward>(torch, {&x});
  Tensor out, more;
  {
    const With no_grad(torch.grad_enabled, false);
    out = run(x, positional, more);
  }
  if (node) {
    node->input.save(x);
    node->positional.save(positional);
    node->run = std::move(run);
    if (more) node->second_layout = &more.layout();
    node->autocast_enabled = torch.autocast.enabled;
    node->autocast_dtype = torch.autocast.dtype;
  }
  second = std::move(more);
  return attach(std::move(out), node);
}

}  // namespace whatfits::torch
