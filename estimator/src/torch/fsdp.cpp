#include "torch/fsdp.h"

#include <string>
#include <utility>

#include "torch/autograd.h"
#include "torch/kernel_sizes.h"
#include "torch/ops.h"

namespace whatfits::torch {

namespace {

// Streams other than the default one, by the order in which their pools first appear.
constexpr std::uint8_t kAllGatherCopyIn = 1;
constexpr std::uint8_t kReduceScatter = 2;

Tensor flat(Torch& torch, std::int64_t elements, DType dtype) { return torch.empty(OpKind::copy, {Dim{elements}}, dtype); }

/// RegisterPostBackwardFunction: passes a block's input on and, in backward, its gradient, once all of the block's are there.
struct RegisterPostBackward final : Node {
  using Node::Node;
  FullyShard* wrapper = nullptr;
  std::size_t group = 0;
  void apply(Torch&, Grads& grads, Grads& out) override {
    wrapper->post_backward(group);
    out.push_back(grads[0]);
  }
};

}  // namespace

FullyShard::FullyShard(Torch& torch, std::int64_t gpus, std::int64_t blocks, bool mixed, bool reshard)
    : torch_(torch), gpus_(gpus), mixed_(mixed), reshard_after_forward_(reshard), groups_(static_cast<std::size_t>(blocks) + 1) {}

/// Made on the meta device, so that only the shard ever has memory.
Tensor FullyShard::parameter(const Shape& shape, DType dtype) {
  if (shards_.empty()) {
    // The first operator on a DTensor looks up what it gives in a mode of fake tensors, which touches the device twice.
    for (int i = 0; i < 2; ++i) torch_.empty(OpKind::copy, {Dim{}}, DType::float32).named("fake tensors' look at the device");
  }
  Shape piece = shape;
  piece[0] = Dim{(shape[0].size + gpus_ - 1) / gpus_};
  Parameter p;
  p.shard = torch_.empty(OpKind::copy, piece, dtype);
  p.shard->leaf_requires_grad = true;
  p.elements = piece.elements();
  const DType seen = mixed_ ? DType::bfloat16 : dtype;
  const Bytes bytes = static_cast<Bytes>(p.elements * gpus_) * size_of(seen);  // with the last ranks' padding
  Ref<StorageImpl> storage(new StorageImpl(torch_, torch_.recorder.declare(bytes, OpKind::copy), false));
  StorageInfo& info = torch_.recorder.storage(storage->id);
  const Shape all{Dim{p.elements * gpus_}};
  const Tensor gathered = torch_.tensor(storage, {.shape = all, .strides = contiguous_strides(all), .dtype = seen});
  p.whole = torch_.tensor(std::move(storage), {.shape = shape, .strides = contiguous_strides(shape), .dtype = seen});
  info.tensor = shape.elements() == all.elements() ? p.whole.id() : gathered.id();
  shards_.push_back(p.shard);
  const std::int16_t layer = torch_.recorder.layer();
  Tensor whole = p.whole;
  groups_[layer == kNoLayer ? 0 : static_cast<std::size_t>(layer) + 1].parameters.push_back(std::move(p));
  return whole;
}

void FullyShard::wrap(const std::vector<Tensor>&) {
  for (const Group& group : groups_) {
    for (const Parameter& p : group.parameters) {
      const Program& program = torch_.recorder.program;
      const std::string name = program.labels[program.storages[p.whole->storage->id].label];
      p.shard.named(name, Category::parameters);
      p.whole.named(name + ", gathered");
    }
  }
}

/// Starts the all-gather of a group (foreach_all_gather): its shards, cast where needed, into one buffer for all ranks'.
void FullyShard::unshard(Group& group) {
  if (group.gathered || group.unsharded || group.parameters.empty()) return;
  const With stream(torch_.recorder.stream, kAllGatherCopyIn);
  std::int64_t elements = 0;
  for (const Parameter& p : group.parameters) elements += p.elements;
  const DType dtype = group.parameters.front().whole.dtype();
  Tensor cast;
  if (mixed_) cast = flat(torch_, elements, dtype).named("shards, cast to be gathered");
  group.gathered = flat(torch_, elements * gpus_, dtype).named("all-gather of a group's parameters");
}

/// Copies what was gathered into each parameter (foreach_all_gather_copy_out).
void FullyShard::wait_for_unshard(Group& group, bool forward) {
  if (!group.gathered) return;
  const Tensor previous = forward ? std::move(kept_gather_) : Tensor();
  std::vector<Bytes> parts;
  for (const Parameter& p : group.parameters) {
    p.whole->storage->resize_to_full();
    parts.push_back(static_cast<Bytes>(p.elements) * size_of(p.whole.dtype()));
  }
  const Multiprocessors card{torch_.device.sm_count, torch_.device.compute_capability};
  torch_.scratch(OpKind::copy, split_copy_metadata(parts, gpus_, card)).named("addresses to copy to");
  group.unsharded = true;
  if (forward) kept_gather_ = std::move(group.gathered);
  group.gathered.reset();
}

void FullyShard::reshard(Group& group) {
  if (!group.unsharded) return;
  for (const Parameter& p : group.parameters) p.whole->storage->resize_to_zero();
  group.unsharded = false;
}

void FullyShard::pre_forward() {
  unshard(groups_[0]);
  wait_for_unshard(groups_[0], true);
}

Tensor FullyShard::pre_block(std::int16_t block, const Tensor& x) {
  torch_.recorder.layer(block);
  const std::size_t index = static_cast<std::size_t>(block) + 1;
  Tensor input = mixed_ ? to(x, DType::bfloat16) : x;  // cast_forward_inputs
  unshard(groups_[index]);
  wait_for_unshard(groups_[index], true);
  const auto node = make_node<RegisterPostBackward>(torch_, {&input});
  if (!node) return input;
  node->wrapper = this;
  node->group = index;
  return attach(alias(input, input.shape(), input.strides(), input.offset()), node);
}

/// Notes the order of calls, for backward's prefetch, and asks to be called when the output's gradient is there.
void FullyShard::called(std::size_t group, const Tensor& out) {
  if (out && out->grad_fn) out->grad_fn->pre_hook = static_cast<std::int16_t>(group);
}

void FullyShard::post_block(std::int16_t block, const Tensor& out) {
  const std::size_t index = static_cast<std::size_t>(block) + 1;
  if (reshard_after_forward_) reshard(groups_[index]);
  groups_[index].calls.push_back(forward_order_.size());
  forward_order_.push_back(index);
  called(index, out);
}

/// The model's own parameters stay: backward needs them at once.
void FullyShard::post_forward(std::initializer_list<const Tensor*> outputs) {
  groups_[0].calls.push_back(forward_order_.size());
  forward_order_.push_back(0);
  for (const Tensor* out : outputs) called(0, *out);
  kept_gather_.reset();
}

void FullyShard::pre_backward(std::int16_t hook) {
  Group& group = groups_[static_cast<std::size_t>(hook)];
  if (group.state == State::pre_backward) return;
  group.state = State::pre_backward;
  unshard(group);
  wait_for_unshard(group, false);
  // The group that ran before this one in forward is needed next.
  if (group.calls.empty()) return;
  const std::size_t position = group.calls.back();
  group.calls.pop_back();
  if (position > 0) unshard(groups_[forward_order_[position - 1]]);
}

void FullyShard::post_backward(std::size_t index) {
  Group& group = groups_[index];
  group.state = State::post_backward;
  std::vector<Tensor> gradients;
  std::vector<Parameter*> owners;
  for (Parameter& p : group.parameters) {
    if (!p.whole->grad) continue;
    gradients.push_back(std::move(p.whole->grad));
    p.whole->grad.reset();
    owners.push_back(&p);
  }
  reshard(group);
  if (gradients.empty()) return;
  reduce_input_.reset();
  reduce(group, gradients, owners);
}

/// foreach_reduce: gradients into one buffer, in chunks for the ranks; this rank's sums into another, of which shards' gradients are views.
void FullyShard::reduce(Group&, std::vector<Tensor>& gradients, const std::vector<Parameter*>& owners) {
  const DType dtype = mixed_ ? DType::float32 : gradients.front().dtype();
  std::int64_t elements = 0;
  std::vector<Bytes> parts;
  for (const Parameter* p : owners) {
    elements += p->elements;
    parts.push_back(static_cast<Bytes>(p->elements) * size_of(dtype));
  }
  Tensor input = flat(torch_, elements * gpus_, dtype).named("gradients to be reduced and scattered");
  torch_.scratch(OpKind::cat, chunk_cat_metadata(parts)).named("addresses to copy from");
  // The list is emptied last to first, but the loop before has a name for its last element, which lives until the call returns.
  const Tensor last = std::move(gradients.back());
  while (!gradients.empty()) gradients.pop_back();
  Tensor output;
  {
    const With stream(torch_.recorder.stream, kReduceScatter);
    output = flat(torch_, elements, dtype).named("gradient shards of a group", Category::gradients);
  }
  std::int64_t offset = 0;
  for (Parameter* p : owners) {
    const Tensor piece = alias(output, p->shard.shape(), contiguous_strides(p->shard.shape()), offset);
    if (p->shard->grad) {
      add_(p->shard->grad, piece);
    } else {
      p->shard->grad = piece;
    }
    offset += p->elements;
  }
  reduce_input_ = std::move(input);
}

void FullyShard::backward_ended() {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    Group& group = groups_[i];
    if (group.unsharded) post_backward(i);
    group.state = State::idle;
    group.gathered.reset();
    group.calls.clear();
  }
  forward_order_.clear();
  reduce_input_.reset();
}

}  // namespace whatfits::torch
