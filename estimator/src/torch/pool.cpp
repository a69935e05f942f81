#include "torch/pool.h"

#include <new>
#include <utility>

// The address sanitizer sees an object's end only if its memory goes back to the heap.
#if defined(__SANITIZE_ADDRESS__)
#define WHATFITS_POOL 0
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WHATFITS_POOL 0
#endif
#endif
#ifndef WHATFITS_POOL
#define WHATFITS_POOL 1
#endif

namespace whatfits::torch {

namespace {
constinit thread_local Pool* in_use = nullptr;
}

Pool::Pool() : before_(std::exchange(in_use, this)) {}

Pool::~Pool() { in_use = before_; }

void* Pool::take(std::size_t bytes) {
  if (WHATFITS_POOL == 0 || in_use == nullptr || bytes > kLargest || bytes == 0) return ::operator new(bytes);
  const std::size_t list = (bytes - 1) / kStep;
  Free*& head = in_use->free_[list];
  if (head == nullptr) return in_use->carve((list + 1) * kStep);
  return std::exchange(head, head->next);
}

void Pool::give(void* piece, std::size_t bytes) noexcept {
  if (WHATFITS_POOL == 0 || in_use == nullptr || bytes > kLargest || bytes == 0) {
    ::operator delete(piece);
    return;
  }
  Free*& head = in_use->free_[(bytes - 1) / kStep];
  head = new (piece) Free{head};
}

void* Pool::carve(std::size_t bytes) {
  if (used_ + bytes > kChunk) {
    chunks_.push_back(std::make_unique_for_overwrite<std::byte[]>(kChunk));
    used_ = 0;
  }
  void* const piece = chunks_.back().get() + used_;
  used_ += bytes;
  return piece;
}

}  // namespace whatfits::torch
