#include "torch/tensor.h"

#include "torch/autograd.h"
#include "torch/torch.h"

namespace whatfits::torch {

StorageImpl::~StorageImpl() { resize_to_zero(); }

void StorageImpl::resize_to_zero() {
  if (allocated) torch.recorder.free(id);
  allocated = false;
}

void StorageImpl::resize_to_full() {
  if (!allocated) torch.recorder.alloc(id);
  allocated = true;
}

TensorImpl::TensorImpl(TensorId id_, Ref<StorageImpl> storage_, const Layout& layout_)
    : id(id_), layout(layout_), storage(std::move(storage_)) {}

TensorImpl::~TensorImpl() = default;

Torch& Tensor::torch() const { return impl_->storage->torch; }
const Layout& Tensor::layout() const {
  static const Layout undefined;
  return impl_ ? impl_->layout : undefined;
}
std::int64_t Tensor::stride(int i) const { return strides()[static_cast<std::size_t>(i < 0 ? rank() + i : i)]; }
TensorId Tensor::id() const { return impl_->id; }
bool Tensor::requires_grad() const { return impl_ && (impl_->leaf_requires_grad || impl_->grad_fn); }
bool Tensor::is_contiguous() const { return torch::is_contiguous(shape(), strides()); }

const Tensor& Tensor::named(std::string_view label) const {
  if (impl_) torch().recorder.storage(impl_->storage->id).label = torch().recorder.label(label);
  return *this;
}

const Tensor& Tensor::named(std::string_view label, Category category) const {
  if (impl_) torch().recorder.storage(impl_->storage->id).category = category;
  return named(label);
}

Strides contiguous_strides(const Shape& shape) {
  Strides strides{};
  std::int64_t next = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    strides[static_cast<std::size_t>(i)] = next;
    next *= shape[i].size > 1 ? shape[i].size : 1;
  }
  return strides;
}

bool is_contiguous(const Shape& shape, const Strides& strides) {
  std::int64_t expected = 1;
  for (int i = shape.rank - 1; i >= 0; --i) {
    if (shape[i].size == 1) continue;  // one row has no stride worth asking about
    if (strides[static_cast<std::size_t>(i)] != expected) return false;
    expected *= shape[i].size;
  }
  return true;
}

namespace {

/// Dimensions by falling stride; equal strides keep their order.
std::array<int, kMaxRank> outermost_first(const Shape& shape, const Strides& strides) {
  std::array<int, kMaxRank> order{};
  for (int i = 0; i < shape.rank; ++i) order[static_cast<std::size_t>(i)] = i;
  for (int i = 1; i < shape.rank; ++i) {
    for (int k = i; k > 0; --k) {
      int& left = order[static_cast<std::size_t>(k - 1)];
      int& right = order[static_cast<std::size_t>(k)];
      if (strides[static_cast<std::size_t>(left)] >= strides[static_cast<std::size_t>(right)]) break;
      std::swap(left, right);
    }
  }
  return order;
}

}  // namespace

bool is_non_overlapping_and_dense(const Shape& shape, const Strides& strides) {
  const auto order = outermost_first(shape, strides);
  std::int64_t expected = 1;
  for (int k = shape.rank - 1; k >= 0; --k) {
    const int i = order[static_cast<std::size_t>(k)];
    if (shape[i].size < 2) continue;
    if (strides[static_cast<std::size_t>(i)] != expected) return false;
    expected *= shape[i].size;
  }
  return true;
}

bool view_strides(const Shape& shape, const Strides& strides, const Shape& wanted, Strides& out) {
  if (shape.rank == 0) {
    out = Strides{};
    out.fill(1);
    return true;
  }
  // Walk both shapes from the innermost dimension. A run of old dimensions that lie packed in memory may be cut anew; the new
  // dimensions must end where each run ends.
  int v = wanted.rank - 1;
  std::int64_t run_stride = strides[static_cast<std::size_t>(shape.rank - 1)];
  std::int64_t run = 1;
  std::int64_t covered = 1;
  for (int d = shape.rank - 1; d >= 0; --d) {
    run *= shape[d].size;
    const bool run_ends = d == 0 || (shape[d - 1].size != 1 && strides[static_cast<std::size_t>(d - 1)] != run * run_stride);
    if (!run_ends) continue;
    while (v >= 0 && (covered < run || wanted[v].size == 1)) {
      out[static_cast<std::size_t>(v)] = covered * run_stride;
      covered *= wanted[v].size;
      --v;
    }
    if (covered != run) return false;
    if (d > 0) {
      run_stride = strides[static_cast<std::size_t>(d - 1)];
      run = covered = 1;
    }
  }
  return v == -1;
}

Strides like_strides(const Shape& shape, const Strides& strides) {
  if (is_non_overlapping_and_dense(shape, strides)) return strides;
  const auto order = outermost_first(shape, strides);
  Strides out{};
  std::int64_t next = 1;
  for (int k = shape.rank - 1; k >= 0; --k) {
    const int i = order[static_cast<std::size_t>(k)];
    out[static_cast<std::size_t>(i)] = next;
    next *= shape[i].size > 1 ? shape[i].size : 1;
  }
  return out;
}

}  // namespace whatfits::torch
