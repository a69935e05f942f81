#include "measure/host_source.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

namespace whatfits::native {

namespace {
// Large enough for the holes that fragmentation leaves between the virtual card's pieces; it costs address space only.
constexpr Bytes kAddressSpace = Bytes{4} << 40;
constexpr Address kFirst = VirtualSource::top - kAddressSpace;
constexpr Bytes kHugePage = 2 * MiB;
}  // namespace

HostSource::HostSource(const Device& device, bool touch) : card_(static_cast<Bytes>(device.free_mib) * MiB), touch_(touch) {
  // One huge page more than needed, so that segments (whole huge pages) can start on one.
  void* at = mmap(nullptr, kAddressSpace + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(at);
  const Bytes skip = round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
  if (skip != 0) munmap(begin, skip);
  munmap(begin + skip + kAddressSpace, kHugePage - skip);
  base_ = begin + skip;
}

HostSource::~HostSource() { munmap(base_, kAddressSpace); }

void* HostSource::pointer(Address address) const {
  return address >= kFirst && address < VirtualSource::top ? base_ + (address - kFirst) : nullptr;
}

bool HostSource::open(Address address, Bytes bytes) {
  void* const at = pointer(address);
  if (!at || mprotect(at, bytes, PROT_READ | PROT_WRITE) != 0) return false;
  madvise(at, bytes, MADV_HUGEPAGE);  // a wish: refused, it only costs time
  if (!touch_) return true;
#ifdef MADV_POPULATE_WRITE
  if (madvise(at, bytes, MADV_POPULATE_WRITE) == 0) return true;
#endif
  std::memset(at, 0, bytes);
  return true;
}

void HostSource::close(Address address, Bytes bytes) {
  void* const at = pointer(address);
  madvise(at, bytes, MADV_DONTNEED);
  mprotect(at, bytes, PROT_NONE);
}

std::optional<Address> HostSource::reserve(Bytes bytes) {
  const std::optional<Address> address = card_.reserve(bytes);
  if (address && !open(*address, bytes)) {
    card_.release(*address, bytes);
    return std::nullopt;
  }
  return address;
}

std::optional<Address> HostSource::reserve_range(Bytes bytes) {
  const std::optional<Address> address = card_.reserve_range(bytes);
  if (address && !pointer(*address)) throw std::bad_alloc();  // a card larger than the address space set aside
  return address;
}

void HostSource::release(Address address, Bytes bytes) {
  close(address, bytes);
  card_.release(address, bytes);
}

bool HostSource::map(Address address, Bytes bytes) {
  if (!card_.map(address, bytes)) return false;
  if (open(address, bytes)) return true;
  card_.unmap(address, bytes);
  return false;
}

void HostSource::unmap(Address address, Bytes bytes) {
  close(address, bytes);
  card_.unmap(address, bytes);
}

}  // namespace whatfits::native
