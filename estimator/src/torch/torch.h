// The state of a PyTorch that computes nothing: who is running, with what switched on, and where it is written down.
#pragma once

#include <cstdint>
#include <vector>

#include "program/recorder.h"
#include "torch/tensor.h"

namespace whatfits::torch {

struct CheckpointFrame;
class Wrapper;

/// What of the card decides which kernels run and which buffers they stage through.
struct DeviceFacts {
  int compute_capability = 86;  ///< major * 10 + minor
  int sm_count = 84;
};

/// Each thread that multiplies matrices has a cuBLAS handle of its own, and each handle a workspace that is never given back.
enum class Thread : std::uint8_t { main, backward };

/// torch.autocast: which type matrix products run in, and the casts of weights made so far.
struct Autocast {
  bool enabled = false;
  DType dtype = DType::bfloat16;
  int nesting = 0;
  struct Cast {
    TensorImpl* weight = nullptr;
    Tensor cast;
  };
  bool bfloat16_checked = false;
  std::vector<Cast> cache;  ///< of leaves that want gradients; emptied when the outermost context exits
};

class Torch {
 private:
  Pool pool_;  // first, so that it outlives every tensor that is held here

 public:
  Torch(Recorder& recorder_, DeviceFacts device_) : recorder(recorder_), device(device_) {}

  Recorder& recorder;
  const DeviceFacts device;
  Thread thread = Thread::main;
  bool grad_enabled = true;
  std::uint64_t next_sequence = 0;  ///< nodes are numbered as they are made; backward runs the latest first
  Autocast autocast;
  CheckpointFrame* packing = nullptr;      ///< saved tensors go to this frame instead of staying alive
  CheckpointFrame* recomputing = nullptr;  ///< saved tensors fill this frame's places again
  Wrapper* wrapper = nullptr;              ///< around the model, where it trains on several cards
  /// A recomputation has all it needs: until it has returned, operators do nothing and give undefined tensors.
  bool stopped = false;

  /// A new tensor on its own storage, asked for by `op`.
  Tensor empty(OpKind op, const Shape& shape, DType dtype);
  Tensor empty_strided(OpKind op, const Shape& shape, const Strides& strides, DType dtype);
  /// A parameter, initialised by `init`: memory of its own, unless a wrapper has it in another way.
  Tensor parameter(const Shape& shape, DType dtype, OpInfo init);
  /// Scratch that has no shape people know: `bytes` of it.
  Tensor scratch(OpKind op, Bytes bytes);
  /// A choice made on the way that readers should know of.
  void note(const char* text);
  /// Allocated by the first product on a thread, after its output (Context::getCurrentCUDABlasHandle).
  void need_blas_workspace();
  /// A look at a storage.
  Tensor tensor(Ref<StorageImpl> storage, const Layout& layout);

 private:
  Tensor workspaces_[2];
};

/// Another look at the same storage, without any graph. Keeps what it looks into alive.
Tensor alias(const Tensor& t, const Shape& shape, const Strides& strides, std::int64_t offset);
/// The same look at the same storage, cut out of the graph.
Tensor detach(const Tensor& t);

/// Switches something for as long as it lives, as a `with` block does.
template <class T>
class With {
 public:
  With(T& place, T value) : place_(place), before_(std::exchange(place, std::move(value))) {}
  ~With() { place_ = std::move(before_); }
  With(const With&) = delete;
  With& operator=(const With&) = delete;

 private:
  T& place_;
  T before_;
};

}  // namespace whatfits::torch
