// Where the caching allocator gets its segments: a virtual card, the host, or a real one.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "whatfits/bytes.h"

namespace whatfits {

using Address = std::uint64_t;

/// Gives out and takes back whole segments, as cudaMalloc and cudaFree do.
class MemorySource {
 public:
  virtual ~MemorySource() = default;
  /// Address of `bytes` of memory, or nothing when the device refuses.
  virtual std::optional<Address> reserve(Bytes bytes) = 0;
  /// Takes back what reserve() gave; `bytes` as asked for then.
  virtual void release(Address address, Bytes bytes) = 0;
  /// Expandable segments: the start of `bytes` of addresses with no memory behind them, or nothing when the source has no way to do it.
  virtual std::optional<Address> reserve_range(Bytes /*bytes*/) { return std::nullopt; }
  /// Takes back what reserve_range() gave; nothing of it is mapped.
  virtual void release_range(Address /*address*/, Bytes /*bytes*/) {}
  /// Puts memory behind [address, address + bytes), which lies in one range: all of it or none. False when the device refuses.
  virtual bool map(Address /*address*/, Bytes /*bytes*/) { return false; }
  /// Takes back memory that map() gave; any whole units of it.
  virtual void unmap(Address /*address*/, Bytes /*bytes*/) {}
  /// Bytes that could still be reserved or mapped, were they in one piece.
  virtual Bytes available() const = 0;
  /// Appends everything that decides what later calls return. Equal states behave equally for ever after.
  virtual void append_state(std::vector<std::uint64_t>& state) const = 0;
};

}  // namespace whatfits
