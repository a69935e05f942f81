// Memory for the many small objects of a recording: tensors, storages, graph nodes and their edges.
//
// A deep model's graph is tens of thousands of objects that all die within the step. From the general heap they cost more than the
// recording itself, and more the deeper the model; from here they lie side by side and go all at once.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <vector>

namespace whatfits::torch {

/// Pieces of up to 512 bytes, taken from chunks and kept on lists by size; chunks go with the pool. The pool made last is the one
/// that `take` and `give` use, on each thread its own; without one they use the general heap. A piece must be given back while the
/// pool that it was taken from is in use.
class Pool {
 public:
  Pool();
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  static void* take(std::size_t bytes);
  static void give(void* piece, std::size_t bytes) noexcept;

 private:
  static constexpr std::size_t kStep = 16;
  static constexpr std::size_t kLargest = 512;
  static constexpr std::size_t kChunk = std::size_t{64} << 10;
  struct Free {
    Free* next;
  };
  void* carve(std::size_t bytes);

  Pool* const before_;
  std::array<Free*, kLargest / kStep> free_{};
  std::vector<std::unique_ptr<std::byte[]>> chunks_;
  std::size_t used_ = kChunk;  ///< of the last chunk
};

/// A base for classes whose objects live in the pool.
struct Pooled {
  static void* operator new(std::size_t bytes) { return Pool::take(bytes); }
  static void operator delete(void* piece, std::size_t bytes) noexcept { Pool::give(piece, bytes); }
};

/// std::vector's elements in the pool.
template <class T>
struct PoolAllocator {
  using value_type = T;
  PoolAllocator() = default;
  template <class U>
  PoolAllocator(const PoolAllocator<U>&) {}  // NOLINT(google-explicit-constructor): allocators convert
  T* allocate(std::size_t n) { return static_cast<T*>(Pool::take(n * sizeof(T))); }
  void deallocate(T* p, std::size_t n) noexcept { Pool::give(p, n * sizeof(T)); }
  friend bool operator==(const PoolAllocator&, const PoolAllocator&) { return true; }
};

template <class T>
using PoolVector = std::vector<T, PoolAllocator<T>>;

}  // namespace whatfits::torch
