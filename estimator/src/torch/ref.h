// Reference counting, as PyTorch does it: the moment the last holder lets go is the moment the memory is free.
#pragma once

#include <cstdint>
#include <utility>

namespace whatfits::torch {

/// An intrusive pointer. T has `std::uint32_t refs` and a destructor (virtual where T is a base).
template <class T>
class Ref {
 public:
  Ref() = default;
  Ref(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): reads like a pointer
  explicit Ref(T* p) : p_(p) {
    if (p_) ++p_->refs;
  }
  Ref(const Ref& o) : Ref(o.p_) {}
  Ref(Ref&& o) noexcept : p_(std::exchange(o.p_, nullptr)) {}
  ~Ref() { drop(p_); }
  Ref& operator=(const Ref& o) {
    if (this == &o) return *this;
    if (o.p_) ++o.p_->refs;
    drop(std::exchange(p_, o.p_));
    return *this;
  }
  Ref& operator=(Ref&& o) noexcept {
    if (this != &o) drop(std::exchange(p_, std::exchange(o.p_, nullptr)));
    return *this;
  }
  void reset() { drop(std::exchange(p_, nullptr)); }
  T* get() const { return p_; }
  T* operator->() const { return p_; }
  T& operator*() const { return *p_; }
  explicit operator bool() const { return p_ != nullptr; }
  friend bool operator==(const Ref& a, const Ref& b) { return a.p_ == b.p_; }

 private:
  // Not inlined: every tensor's end is a call of this one, which halves the code of the operators.
  [[gnu::noinline]] static void drop(T* p) {
    if (p && --p->refs == 0) delete p;
  }
  T* p_ = nullptr;
};

}  // namespace whatfits::torch
