#include "measure/host_source.h"

#include <sys/mman.h>

#include <cstring>
#include <new>

#include "allocator/torch_policy.h"

namespace whatfits::native {

namespace {
// Large enough for the holes that fragmentation leaves between the virtual card's pieces; it costs address space only.
constexpr Bytes kAddressSpace = Bytes{4} << 40;
constexpr Address kTop = Address{1} << 47;  // where the virtual card's first piece ends
constexpr Bytes kHugePage = 2 * MiB;
}  // namespace

HostSource::HostSource(const Device& device, const AllocatorConfig& config, bool touch)
    : card_(static_cast<Bytes>(device.free_mib) * MiB), touch_(touch) {
  if (!config.expandable_segments) {
    add_range(kTop - kAddressSpace, kAddressSpace);
    return;
  }
  const Bytes total = static_cast<Bytes>(device.total_mib) * MiB;
  for (const bool small : {false, true}) add_range(torch_policy::expandable_base(small), torch_policy::expandable_range(total, small));
}

HostSource::~HostSource() {
  for (const Range& range : ranges_) munmap(range.at, range.size);
}

void HostSource::add_range(Address first, Bytes size) {
  // One huge page more than needed, so that segments (whole huge pages) can start on one.
  void* at = mmap(nullptr, size + kHugePage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (at == MAP_FAILED) throw std::bad_alloc();
  char* const begin = static_cast<char*>(at);
  const Bytes skip = round_up(reinterpret_cast<std::uintptr_t>(begin), kHugePage) - reinterpret_cast<std::uintptr_t>(begin);
  if (skip != 0) munmap(begin, skip);
  munmap(begin + skip + size, kHugePage - skip);
  ranges_.push_back({first, size, begin + skip});
}

void* HostSource::pointer(Address address) const {
  for (const Range& range : ranges_) {
    if (address >= range.first && address - range.first < range.size) return range.at + (address - range.first);
  }
  return nullptr;
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
