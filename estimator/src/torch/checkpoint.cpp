#include "torch/checkpoint.h"

#include "torch/autocast.h"
#include "torch/autograd.h"

namespace whatfits::torch {

Ref<CheckpointPlace> CheckpointFrame::pack() {
  Ref<CheckpointPlace> place(new CheckpointPlace(*this, places.size()));
  places.push_back(place.get());
  return place;
}

void CheckpointFrame::refill(Torch& torch, const Tensor& saved) {
  if (torch.stopped) return;
  StorageInfo& storage = torch.recorder.storage(saved->storage->id);
  if (storage.category == Category::temporaries) storage.category = Category::activations;
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

Tensor checkpoint(const Tensor& x, std::function<Tensor(const Tensor&)> run) {
  if (!x) return {};
  Torch& torch = x.torch();
  const Ref<CheckpointFrame> frame(new CheckpointFrame(std::move(run), x));
  frame->autocast_enabled = torch.autocast.enabled;
  frame->autocast_dtype = torch.autocast.dtype;
  const With packing(torch.packing, frame.get());
  return frame->run(x);
}

namespace {

struct ReentrantBackward final : Node {
  using Node::Node;
  std::function<Tensor(const Tensor&)> run;
  Saved input;
  bool autocast_enabled = false;
  DType autocast_dtype = DType::bfloat16;
  void apply(Torch& torch, Grads& grads, Grads& out) override {
    const Tensor x = input.unpack();
    Tensor detached = detach(x);
    detached->leaf_requires_grad = x.requires_grad();
    Tensor output;
    const Frame frame{&detached, &output};
    {
      const With grad(torch.grad_enabled, true);
      const With again(torch.recorder.recomputing, true);
      const AutocastScope autocast(torch, autocast_enabled, autocast_dtype);
      output = run(detached);
    }
    backward_from(output, grads[0]);
    out.push_back(std::move(detached->grad));
  }
  void release() override { input.reset(); }
};

}  // namespace

Tensor checkpoint_reentrant(const Tensor& x, std::function<Tensor(const Tensor&)> run) {
  if (!x) return {};
  Torch& torch = x.torch();
  const auto node = make_node<ReentrantBackward>(torch, {&x});
  Tensor out;
  {
    const With no_grad(torch.grad_enabled, false);
    out = run(x);
  }
  if (node) {
    node->input.save(x);
    node->run = std::move(run);
    node->autocast_enabled = torch.autocast.enabled;
    node->autocast_dtype = torch.autocast.dtype;
  }
  return attach(std::move(out), node);
}

}  // namespace whatfits::torch
