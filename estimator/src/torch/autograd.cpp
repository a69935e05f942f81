#include "torch/autograd.h"

#include "torch/checkpoint.h"
#include "torch/ops.h"
#include "torch/wrapper.h"

namespace whatfits::torch {

// ---- graph -------------------------------------------------------------------------------------------------------------------------

AccumulateGrad::AccumulateGrad(Torch& torch, Tensor variable_) : Node(torch), variable(std::move(variable_)) {
  --torch.next_sequence;  // leaves are not numbered: they go first
  sequence = std::numeric_limits<std::uint64_t>::max();
  variable->accumulator = this;
  outputs.push_back(&variable.layout());
}

AccumulateGrad::~AccumulateGrad() { variable->accumulator = nullptr; }

Edge gradient_edge(const Tensor& t) {
  if (!t) return {};
  if (t->grad_fn) return {t->grad_fn, t->output_nr};
  if (!t->leaf_requires_grad) return {};
  if (t->accumulator) return {Ref<Node>(t->accumulator), 0};
  return {Ref<Node>(new AccumulateGrad(t.torch(), t)), 0};
}

Tensor attach(Tensor out, const Ref<Node>& node) {
  if (!node || !out) return out;
  out->grad_fn = node;
  out->output_nr = static_cast<std::uint8_t>(node->outputs.size());
  node->outputs.push_back(&out.layout());
  return out;
}

Saved::Saved() = default;
Saved::~Saved() = default;

void kept_for_backward(const Tensor& tensor) {
  StorageInfo& storage = tensor.torch().recorder.storage(tensor->storage->id);
  if (storage.category == Category::temporaries) storage.category = Category::activations;
}

void Saved::save(const Tensor& input) {
  if (!input) return;
  Torch& torch = input.torch();
  if (torch.recomputing) {
    torch.recomputing->refill(torch, input);
    return;  // this graph is thrown away when the recomputation ends
  }
  if (torch.packing) {
    place_ = torch.packing->pack();
    return;
  }
  kept_for_backward(input);
  tensor_ = input;
}

Tensor Saved::unpack() const { return place_ ? place_->unpack() : tensor_; }

void Saved::reset() {
  tensor_.reset();
  place_.reset();
}

// ---- accumulation ------------------------------------------------------------------------------------------------------------------

namespace {

/// Two gradients meet (InputBuffer::add): into the first, if nobody else can see it, else into a third tensor. A view's base can.
void accumulate(Tensor& slot, Tensor&& grad) {
  if (!slot) {
    slot = std::move(grad);
    return;
  }
  if (slot->refs == 1 && slot->storage->refs == 1 && is_non_overlapping_and_dense(slot.shape(), slot.strides())) {
    add_(slot, grad);
  } else {
    slot = add(slot, grad);
  }
}

bool obeys_layout_contract(const Tensor& grad, const Tensor& variable) {
  if (!is_non_overlapping_and_dense(variable.shape(), variable.strides())) return grad.is_contiguous();
  for (int i = 0; i < grad.rank(); ++i) {
    if (grad.size(i).size != 1 && grad.stride(i) != variable.stride(i)) return false;
  }
  return true;
}

/// validate_outputs: a gradient leaves a node in the shape and type that the tensor it belongs to had.
void validate(const Node& node, Grads& out) {
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (!out[i] || !node.wants(i)) continue;
    const Layout& expected = *node.next[i].node->outputs[node.next[i].input];
    if (&out[i].layout() == &expected) continue;
    if (!(out[i].shape() == expected.shape)) out[i] = sum_to(out[i], expected.shape);
    if (out[i].dtype() != expected.dtype) out[i] = to(out[i], expected.dtype);
  }
}

/// std::priority_queue as libstdc++ has it, latest node on top. Leaves are equal to each other, so which of them goes first is the
/// algorithm's own choice; written out here, it is the same with every standard library.
class ReadyQueue {
 public:
  bool empty() const { return heap_.empty(); }
  void push(Ref<Node> node) {
    heap_.push_back(nullptr);
    sift_up(heap_.size() - 1, 0, std::move(node));
  }
  Ref<Node> pop() {
    Ref<Node> top = std::move(heap_.front());
    Ref<Node> last = std::move(heap_.back());
    heap_.pop_back();
    if (heap_.empty()) return top;
    // Let the hole sink to a leaf, then let the last element rise from there.
    std::size_t hole = 0;
    std::size_t child = 0;
    const std::size_t n = heap_.size();
    while (child < (n - 1) / 2) {
      child = 2 * (child + 1);
      if (before(heap_[child], heap_[child - 1])) --child;
      heap_[hole] = std::move(heap_[child]);
      hole = child;
    }
    if ((n & 1) == 0 && child == (n - 2) / 2) {
      child = 2 * (child + 1);
      heap_[hole] = std::move(heap_[child - 1]);
      hole = child - 1;
    }
    sift_up(hole, 0, std::move(last));
    return top;
  }

 private:
  static bool before(const Ref<Node>& a, const Ref<Node>& b) { return a->sequence < b->sequence; }
  void sift_up(std::size_t hole, std::size_t top, Ref<Node> node) {
    while (hole > top) {
      const std::size_t parent = (hole - 1) / 2;
      if (!before(heap_[parent], node)) break;
      heap_[hole] = std::move(heap_[parent]);
      hole = parent;
    }
    heap_[hole] = std::move(node);
  }
  std::vector<Ref<Node>> heap_;
};

/// Edges into each node that the roots lead to, those of the roots themselves among them.
void count_dependencies(std::initializer_list<Root> roots) {
  std::vector<Node*> stack;
  for (const Root& root : roots) {
    if (!*root.output || !(*root.output)->grad_fn) continue;
    Node* node = (*root.output)->grad_fn.get();
    ++node->dependencies;
    if (!node->seen) {
      node->seen = true;
      stack.push_back(node);
    }
  }
  while (!stack.empty()) {
    Node* node = stack.back();
    stack.pop_back();
    for (const Edge& edge : node->next) {
      if (!edge.node) continue;
      ++edge.node->dependencies;
      if (!edge.node->seen) {
        edge.node->seen = true;
        stack.push_back(edge.node.get());
      }
    }
  }
}

/// First to last, as a vector of libstdc++ dies; others die last to first.
void drop(Grads& grads) {
  for (Tensor& grad : grads) grad.reset();
}

/// A gradient arrives at a node, which is ready when it was the last.
void deliver(const Edge& edge, Tensor&& grad, ReadyQueue& ready) {
  Node& node = *edge.node;
  node.buffer.resize(node.outputs.size());
  if (grad) accumulate(node.buffer[edge.input], std::move(grad));
  if (--node.dependencies == 0) {
    node.seen = false;
    ready.push(edge.node);
  }
}

void evaluate(Torch& torch, Node& node, ReadyQueue& ready) {
  torch.recorder.layer(node.layer);
  if (node.pre_hook != kNoPreHook) torch.wrapper->pre_backward(node.pre_hook);
  Grads out;
  {
    Grads grads = std::move(node.buffer);
    node.buffer.clear();
    node.apply(torch, grads, out);
    validate(node, out);
    drop(grads);  // before what was saved
  }
  node.release();
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (node.next[i].node) deliver(node.next[i], std::move(out[i]), ready);
  }
  drop(out);
}

}  // namespace

void AccumulateGrad::apply(Torch& torch, Grads& grads, Grads&) {
  Tensor grad = std::move(grads[0]);
  if (!grad) return;
  accumulate_into(torch, variable->grad, grad);
  if (torch.wrapper) torch.wrapper->gradient_accumulated(variable);
}

void AccumulateGrad::accumulate_into(Torch& torch, Tensor& place, const Tensor& grad) const {
  if (place) {
    add_(place, grad);
    return;
  }
  // Taken as it is when nobody else holds it, else copied into the parameter's own layout.
  if (grad->refs == 1 && obeys_layout_contract(grad, variable)) {
    place = detach(grad);
  } else {
    const Strides strides =
        is_non_overlapping_and_dense(variable.shape(), variable.strides()) ? variable.strides() : contiguous_strides(variable.shape());
    place = torch.empty_strided(OpKind::copy, variable.shape(), strides, grad.dtype());
    torch.recorder.op({.kind = OpKind::copy}, {grad.id()}, {place.id()});
  }
  StorageInfo& info = torch.recorder.storage(place->storage->id);
  info.category = Category::gradients;
  info.label = torch.recorder.storage(variable->storage->id).label;
}

void backward_from(std::initializer_list<Root> roots) {
  Torch& torch = roots.begin()->output->torch();
  const With thread(torch.thread, Thread::backward);
  const With no_grad(torch.grad_enabled, false);
  const With no_autocast(torch.autocast.enabled, false);
  count_dependencies(roots);
  ReadyQueue ready;
  for (const Root& root : roots) {
    const Tensor& output = *root.output;
    if (output && output->grad_fn) deliver({output->grad_fn, output->output_nr}, Tensor(*root.gradient), ready);
  }
  while (!ready.empty()) {
    const Ref<Node> node = ready.pop();
    evaluate(torch, *node, ready);
  }
}

void backward(const Tensor& loss) {
  Torch& torch = loss.torch();
  torch.recorder.layer(kNoLayer);
  const Tensor root_grad = ones_like(loss).named("gradient of the loss");
  backward_from({{&loss, &root_grad}});
  if (torch.wrapper) torch.wrapper->backward_ended();
  torch.recorder.layer(kNoLayer);
}

}  // namespace whatfits::torch
