#include "torch/torch.h"

#include <algorithm>

#include "torch/autograd.h"
#include "torch/wrapper.h"

namespace whatfits::torch {

Tensor Torch::tensor(Ref<StorageImpl> storage, const Layout& layout) {
  const LayoutId known = recorder.layout(layout);
  const TensorId id = recorder.tensor({.storage = storage->id, .layout = known});
  return Tensor(Ref<TensorImpl>(new TensorImpl(id, std::move(storage), recorder.program.layouts[known])));
}

Tensor Torch::empty(OpKind op, const Shape& shape, DType dtype) { return empty_strided(op, shape, contiguous_strides(shape), dtype); }

Tensor Torch::empty_strided(OpKind op, const Shape& shape, const Strides& strides, DType dtype) {
  const Bytes bytes = static_cast<Bytes>(shape.elements()) * size_of(dtype);
  Ref<StorageImpl> storage(new StorageImpl(*this, recorder.alloc(bytes, op)));
  Tensor t = tensor(std::move(storage), {.shape = shape, .strides = strides, .dtype = dtype});
  StorageInfo& info = recorder.storage(t->storage->id);
  info.tensor = t.id();
  // Score-shaped and vocabulary-shaped tensors are what people look for in a ledger, whoever made them.
  Letters all = 0;
  for (int i = 0; i < shape.rank; ++i) all += shape[i].letters;
  if (all != 0) {
    const int tokens = letters::exponent(all, 1);
    if (tokens >= 2) info.category = Category::attention;
    if (tokens >= 1 && letters::exponent(all, 4) >= 1) info.category = Category::logits;
  }
  return t;
}

Tensor Torch::parameter(const Shape& shape, DType dtype, OpInfo init) {
  if (wrapper) {
    if (Tensor own = wrapper->parameter(shape, dtype)) return own;
  }
  Tensor p = empty(OpKind::copy, shape, dtype);
  recorder.op(init, {}, {p.id()});
  return p;
}

Tensor Torch::scratch(OpKind op, Bytes bytes) { return empty(op, {Dim{static_cast<std::int64_t>(bytes)}}, DType::uint8); }

void Torch::note(const char* text) {
  auto& notes = recorder.program.notes;
  if (std::find(notes.begin(), notes.end(), text) == notes.end()) notes.emplace_back(text);
}

void Torch::need_blas_workspace() {
  Tensor& workspace = workspaces_[static_cast<int>(thread)];
  if (workspace) return;
  // PyTorch 2.6, parseChosenWorkspaceSize: ":4096:2:16:8" is 2 * 4096 KiB + 8 * 16 KiB, ":4096:8" on compute capability 9.0.
  const Bytes bytes = device.compute_capability == 90 ? Bytes{8} * 4096 * KiB : Bytes{2 * 4096 + 8 * 16} * KiB;
  workspace = scratch(OpKind::mm, bytes);
  workspace.named(thread == Thread::main ? "cuBLAS workspace" : "cuBLAS workspace of the backward thread", Category::workspaces);
}

Tensor alias(const Tensor& t, const Shape& shape, const Strides& strides, std::int64_t offset) {
  Tensor out = t.torch().tensor(t->storage, {.shape = shape, .strides = strides, .offset = offset, .dtype = t.dtype()});
  out->base = t->base ? t->base : t.impl();
  return out;
}

Tensor detach(const Tensor& t) { return Tensor(Ref<TensorImpl>(new TensorImpl(t.id(), t->storage, t.layout()))); }

}  // namespace whatfits::torch
