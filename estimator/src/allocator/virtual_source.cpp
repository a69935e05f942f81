#include "allocator/virtual_source.h"

#include <algorithm>
#include <cstddef>
#include <functional>

namespace whatfits {
namespace {

constexpr Bytes granule = 2 * MiB;  // of device memory: cudaMalloc gives no less
constexpr Bytes piece_unit = 32 * MiB;

}  // namespace

bool VirtualSource::fails_now() {
  if (fail_in_ == 0) return false;
  --fail_in_;
  return fail_in_ == 0;
}

bool VirtualSource::starts_piece(Address address) const {
  return std::binary_search(pieces_.begin(), pieces_.end(), address, std::greater<>());
}

std::optional<Address> VirtualSource::reserve(Bytes bytes) {
  if (fails_now() || bytes > available_) return std::nullopt;
  bytes = round_up(bytes, granule);
  if (bytes > available_) return std::nullopt;
  const std::optional<Address> address = take(bytes);
  if (address) available_ -= bytes;
  return address;
}

std::optional<Address> VirtualSource::take(Bytes bytes) {
  auto hole = std::find_if(holes_.begin(), holes_.end(), [bytes](const Hole& h) { return h.size >= bytes; });
  if (hole == holes_.end()) {
    const Bytes piece = round_up(bytes, piece_unit);
    const Address floor = pieces_.empty() ? top : pieces_.back();
    if (piece > floor) return std::nullopt;
    pieces_.push_back(floor - piece);
    hole = holes_.insert(holes_.begin(), Hole{floor - piece, piece});
  }
  const Address address = hole->address;
  hole->address += bytes;
  hole->size -= bytes;
  if (hole->size == 0) holes_.erase(hole);
  return address;
}

void VirtualSource::release(Address address, Bytes bytes) {
  bytes = round_up(bytes, granule);
  available_ += bytes;
  give(address, bytes);
}

void VirtualSource::give(Address address, Bytes bytes) {
  const auto after =
      std::lower_bound(holes_.begin(), holes_.end(), address, [](const Hole& hole, Address wanted) { return hole.address < wanted; });
  auto hole = holes_.insert(after, Hole{address, bytes});
  const auto next = hole + 1;
  if (next != holes_.end() && address + bytes == next->address && !starts_piece(next->address)) {
    hole->size += next->size;
    holes_.erase(next);
  }
  if (hole == holes_.begin() || starts_piece(address)) return;
  const auto previous = hole - 1;
  if (previous->address + previous->size != address) return;
  previous->size += hole->size;
  holes_.erase(hole);
}

bool VirtualSource::map(Address /*address*/, Bytes bytes) {
  if (fails_now() || bytes > available_) return false;
  available_ -= bytes;
  return true;
}

void VirtualSource::unmap(Address /*address*/, Bytes bytes) { available_ += bytes; }

void VirtualSource::append_state(std::vector<std::uint64_t>& state) const {
  state.push_back(available_);
  state.push_back(fail_in_);
  state.push_back(pieces_.size());
  state.insert(state.end(), pieces_.begin(), pieces_.end());
  state.push_back(holes_.size());
  for (const Hole& hole : holes_) {
    state.push_back(hole.address);
    state.push_back(hole.size);
  }
}

}  // namespace whatfits
