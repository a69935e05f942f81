// The host's memory in the guise of a card: segments lie where the virtual card would put them, so that whatever the allocator decides
// by address comes out as predicted.
#pragma once

#include <vector>

#include "allocator/virtual_source.h"
#include "measure/native_source.h"
#include "whatfits/config.h"

namespace whatfits::native {

class HostSource final : public NativeSource {
 public:
  /// A card of the request's size. `touch` puts pages behind a segment when it is taken, as a card does; without it they come when
  /// written. Throws std::bad_alloc when the system has no address range to give.
  HostSource(const Device& device, bool touch);
  ~HostSource() override;
  HostSource(const HostSource&) = delete;
  HostSource& operator=(const HostSource&) = delete;

  std::optional<Address> reserve(Bytes bytes) override;
  void release(Address address, Bytes bytes) override;
  std::optional<Address> reserve_range(Bytes bytes) override;
  void release_range(Address address, Bytes bytes) override { card_.release_range(address, bytes); }
  bool map(Address address, Bytes bytes) override;
  void unmap(Address address, Bytes bytes) override;
  Bytes available() const override { return card_.available(); }
  void append_state(std::vector<std::uint64_t>& state) const override { card_.append_state(state); }
  void* pointer(Address address) const override;

 private:
  bool open(Address address, Bytes bytes);
  void close(Address address, Bytes bytes);

  VirtualSource card_;
  char* base_ = nullptr;  ///< where the address space begins in this process
  bool touch_;
};

}  // namespace whatfits::native
