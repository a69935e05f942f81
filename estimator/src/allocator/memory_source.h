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
  /// Bytes that could still be reserved, were they in one piece.
  virtual Bytes available() const = 0;
  /// Appends everything that decides what later calls return. Equal states behave equally for ever after.
  virtual void append_state(std::vector<std::uint64_t>& state) const = 0;
};

}  // namespace whatfits
