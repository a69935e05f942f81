// A memory source that writes down what the allocator asks of another one.
#pragma once

#include <optional>
#include <vector>

#include "allocator/memory_source.h"
#include "support/trace_file.h"

namespace whatfits::testing {

struct SegmentEvent {
  TraceAction action = TraceAction::segment_alloc;
  Bytes bytes = 0;
  Address address = 0;
  bool operator==(const SegmentEvent&) const = default;
};

/// Requests that were refused are not in `events`.
class RecordingSource final : public MemorySource {
 public:
  explicit RecordingSource(MemorySource& source) : source_(source) {}

  std::optional<Address> reserve(Bytes bytes) override {
    const std::optional<Address> address = source_.reserve(bytes);
    if (address) events.push_back({TraceAction::segment_alloc, bytes, *address});
    return address;
  }
  void release(Address address, Bytes bytes) override {
    source_.release(address, bytes);
    events.push_back({TraceAction::segment_free, bytes, address});
  }
  std::optional<Address> reserve_range(Bytes bytes) override { return source_.reserve_range(bytes); }
  void release_range(Address address, Bytes bytes) override { source_.release_range(address, bytes); }
  bool map(Address address, Bytes bytes) override {
    const bool mapped = source_.map(address, bytes);
    if (mapped) events.push_back({TraceAction::segment_map, bytes, address});
    return mapped;
  }
  void unmap(Address address, Bytes bytes) override {
    source_.unmap(address, bytes);
    events.push_back({TraceAction::segment_unmap, bytes, address});
  }
  Bytes available() const override { return source_.available(); }
  void append_state(std::vector<std::uint64_t>& state) const override { source_.append_state(state); }

  std::vector<SegmentEvent> events;

 private:
  MemorySource& source_;
};

}  // namespace whatfits::testing
