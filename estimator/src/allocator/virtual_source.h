// A card that exists only as a capacity and a rule for addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/memory_source.h"
#include "whatfits/bytes.h"

namespace whatfits {

/// Addresses matter: among equal free blocks the allocator takes the lowest. The rule, as seen in traces of real drivers
/// (fixtures/torch/traces hold addresses made by it): address space is taken in pieces of a multiple of 32 MiB, each new
/// piece directly below the last; a piece is filled upwards; a later request takes the lowest hole that fits, and holes of
/// different pieces stay apart even where they touch. Which hole a driver would take is the one guess in it.
/// What fits is decided by the sum alone: a new piece can always be had while `capacity` is not used up.
class VirtualSource final : public MemorySource {
 public:
  /// The first piece ends here: addresses are exact as doubles too, and below lies eight times what the largest card has
  /// (limits::memory_mib, 2^50 bytes).
  static constexpr Address top = Address{1} << 53;

  /// `capacity` in bytes: what the allocator may have once the CUDA context and other processes have theirs.
  explicit VirtualSource(Bytes capacity) : available_(capacity) {}

  std::optional<Address> reserve(Bytes bytes) override;
  void release(Address address, Bytes bytes) override;
  /// Addresses for expandable segments come from where those of segments come from, and cost no memory.
  std::optional<Address> reserve_range(Bytes bytes) override { return take(bytes); }
  void release_range(Address address, Bytes bytes) override { give(address, bytes); }
  bool map(Address address, Bytes bytes) override;
  void unmap(Address address, Bytes bytes) override;
  Bytes available() const override { return available_; }
  void append_state(std::vector<std::uint64_t>& state) const override;

  /// Refuses the n-th reserve() or map() from now on (1: the next), once, whatever is available. 0: none.
  void fail_nth(std::uint64_t n) { fail_in_ = n; }

 private:
  struct Hole {
    Address address;
    Bytes size;
  };

  bool fails_now();
  std::optional<Address> take(Bytes bytes);
  void give(Address address, Bytes bytes);
  bool starts_piece(Address address) const;

  Bytes available_;
  std::uint64_t fail_in_ = 0;
  std::vector<Address> pieces_;  // where each starts, newest and lowest last
  std::vector<Hole> holes_;      // by address
};

}  // namespace whatfits
