// Tensors without numbers: shape, type, strides, and a storage whose birth and death are written into the Program.
#pragma once

#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

#include "torch/pool.h"
#include "torch/ref.h"
#include "whatfits/program.h"

namespace whatfits::torch {

class Torch;
struct Node;
struct TensorImpl;

/// A piece of device memory. Allocated when made, freed when the last tensor that looks at it is gone.
struct StorageImpl : Pooled {
  StorageImpl(Torch& torch_, StorageId id_, bool allocated_ = true) : allocated(allocated_), id(id_), torch(torch_) {}
  ~StorageImpl();
  StorageImpl(const StorageImpl&) = delete;
  StorageImpl& operator=(const StorageImpl&) = delete;
  /// untyped_storage().resize_(): gives the memory back while tensors still look at it, and takes new.
  void resize_to_zero();
  void resize_to_full();
  std::uint32_t refs = 0;  ///< tensors that look at it
  bool allocated;          ///< has memory now
  const StorageId id;
  Torch& torch;
};

using whatfits::Shape;
using whatfits::Strides;

/// A handle, as in Python: copying it makes another name for the same tensor.
class Tensor {
 public:
  Tensor() = default;
  explicit Tensor(Ref<TensorImpl> impl) : impl_(std::move(impl)) {}
  explicit operator bool() const { return static_cast<bool>(impl_); }
  void reset() { impl_.reset(); }
  TensorImpl* operator->() const { return impl_.get(); }
  TensorImpl* get() const { return impl_.get(); }
  const Ref<TensorImpl>& impl() const { return impl_; }

  Torch& torch() const;
  const Layout& layout() const;
  const Shape& shape() const { return layout().shape; }
  const Strides& strides() const { return layout().strides; }
  std::int64_t offset() const { return layout().offset; }
  Dim size(int i) const { return shape()[i]; }
  std::int64_t stride(int i) const;
  int rank() const { return shape().rank; }
  std::int64_t elements() const { return shape().elements(); }
  DType dtype() const { return layout().dtype; }
  TensorId id() const;
  /// Part of the graph: a leaf that wants a gradient, or made from one.
  bool requires_grad() const;
  bool is_contiguous() const;

  /// Words for the ledger; they go to the storage. Of an undefined tensor: nothing.
  const Tensor& named(std::string_view label) const;
  const Tensor& named(std::string_view label, Category category) const;

 private:
  Ref<TensorImpl> impl_;
};

struct TensorImpl : Pooled {
  /// `layout_` must be one of the program's, which stay where they are.
  TensorImpl(TensorId id_, Ref<StorageImpl> storage_, const Layout& layout_);
  ~TensorImpl();
  TensorImpl(const TensorImpl&) = delete;
  TensorImpl& operator=(const TensorImpl&) = delete;

  std::uint32_t refs = 0;
  bool leaf_requires_grad = false;
  std::uint8_t output_nr = 0;  ///< which output of grad_fn
  const TensorId id;
  const Layout& layout;
  const Ref<StorageImpl> storage;
  Ref<TensorImpl> base;  ///< of a view: the tensor it looks into, which it keeps alive
  Ref<Node> grad_fn;
  Node* accumulator = nullptr;  ///< of a leaf: its AccumulateGrad while a graph holds one
  Tensor grad;
};

/// Strides of a packed tensor of this shape.
Strides contiguous_strides(const Shape& shape);
bool is_contiguous(const Shape& shape, const Strides& strides);
/// Some order of the dimensions in which the elements are packed without gaps.
bool is_non_overlapping_and_dense(const Shape& shape, const Strides& strides);
/// Strides that show a tensor of `shape`, `strides` as `wanted` without a copy; false when there are none (at::detail::computeStride).
bool view_strides(const Shape& shape, const Strides& strides, const Shape& wanted, Strides& out);
/// Strides of what an elementwise operator makes: the input's order of dimensions, packed (empty_like with preserve_format).
Strides like_strides(const Shape& shape, const Strides& strides);

/// CPython drops a call's names in the order in which they first appear in the function's text, C++ last to first. Declare one after
/// the names, listing them in Python's order; leave out a name that the function returns (the compiler may make it the result itself).
class Frame {
 public:
  Frame(std::initializer_list<Tensor*> names) {
    for (Tensor* name : names) names_[static_cast<std::size_t>(count_++)] = name;
  }
  ~Frame() {
    for (int i = 0; i < count_; ++i) names_[static_cast<std::size_t>(i)]->reset();
  }
  Frame(const Frame&) = delete;
  Frame& operator=(const Frame&) = delete;

 private:
  std::array<Tensor*, 16> names_{};
  int count_ = 0;
};

}  // namespace whatfits::torch
