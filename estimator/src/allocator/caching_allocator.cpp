#include "allocator/caching_allocator.h"

#include <algorithm>
#include <limits>

#include "allocator/torch_policy.h"

namespace whatfits {

std::array<CachingAllocator::Pool, 2 * std::size_t{kStreams}> CachingAllocator::make_pools(Bytes total) {
  const auto pool = [total](bool small, std::uint8_t stream) {
    return Pool{.small = small, .stream = stream, .free = {}, .range = ExpandablePool(small, stream, total)};
  };
  static_assert(kStreams == 3);
  return {pool(false, 0), pool(true, 0), pool(false, 1), pool(true, 1), pool(false, 2), pool(true, 2)};
}

CachingAllocator::CachingAllocator(MemorySource& source, const AllocatorConfig& config, Bytes total)
    : source_(&source),
      expandable_(config.expandable_segments),
      max_split_(config.max_split_size_mib > 0 ? static_cast<Bytes>(config.max_split_size_mib) * MiB : std::numeric_limits<Bytes>::max()),
      divisions_(static_cast<Bytes>(config.roundup_power2_divisions)),
      pools_(make_pools(total)) {}

std::optional<CachingAllocator::BlockId> CachingAllocator::allocate(Bytes requested, std::uint8_t stream) {
  if (requested > torch_policy::max_request) {
    refusal_ = {.requested = requested, .segment = requested, .available = source_->available()};
    return std::nullopt;
  }
  const Bytes size = torch_policy::block_size(requested, divisions_);
  Pool& pool = this->pool(torch_policy::is_small(size), stream);
  FreeList::Index index = find(pool, size);
  if (index == FreeList::none) {
    BlockId block = extend(pool, size);
    if (block == no_block && release_oversize(pool, size)) block = extend(pool, size);
    if (block == no_block) {
      release_cached();
      ++retries_;
      block = extend(pool, size);
    }
    if (block == no_block) {
      refusal_ = {.requested = requested, .segment = torch_policy::segment_size(size), .available = source_->available()};
      return std::nullopt;
    }
    index = pool.free.index(blocks_[block]);
  }
  return take(pool, index, size);
}

void CachingAllocator::free(BlockId block) {
  allocated_ -= blocks_[block].size;
  insert_free(blocks_, pool(blocks_[block].small, blocks_[block].stream).free, block);
}

FreeList::Index CachingAllocator::find(const Pool& pool, Bytes size) const {
  if (expandable_) return pool.range.find(blocks_, pool.free, size);
  const FreeList::Index index = pool.free.fit(size);
  if (index == pool.free.size()) return FreeList::none;
  const Bytes found = pool.free[index].size;
  if (size < max_split_ ? found >= max_split_ : found >= size + torch_policy::oversize_slack) return FreeList::none;
  return index;
}

bool CachingAllocator::splits(const Pool& pool, Bytes block, Bytes size) const {
  if (!pool.small && !expandable_ && size >= max_split_) return false;
  return torch_policy::splits(block - size, pool.small, expandable_);
}

/// With max_split_size: gives back one cached block that is large enough, or the largest until enough is free
/// (release_available_cached_blocks). Such blocks are whole segments. False if that cannot be enough.
bool CachingAllocator::release_oversize(Pool& pool, Bytes size) {
  if (max_split_ == std::numeric_limits<Bytes>::max() || expandable_) return false;
  const Bytes wanted = std::max(size, max_split_);
  const auto release = [&](FreeList::Index index) {
    const FreeList::Entry entry = pool.free[index];
    pool.free.erase(index);
    std::erase(segments_, entry.id);
    source_->release(entry.address, entry.size);
    reserved_ -= entry.size;
    blocks_.remove(entry.id);
    return entry.size;
  };
  if (const FreeList::Index index = pool.free.fit(wanted); index != pool.free.size()) {
    release(index);
    return true;
  }
  Bytes released = 0;
  while (released < wanted && pool.free.size() > 0 && pool.free[pool.free.size() - 1].size >= max_split_) {
    released += release(pool.free.size() - 1);
  }
  return released >= wanted;
}

/// Asks the source for memory; a listed free block of at least `size` bytes, or no_block.
BlockId CachingAllocator::extend(Pool& pool, Bytes size) {
  if (expandable_) {
    const BlockId block = pool.range.grow(blocks_, pool.free, *source_, size);
    count_reserved();  // also when it failed: what was mapped on the way stays
    return block;
  }
  const Bytes segment = torch_policy::segment_size(size);
  const std::optional<Address> address = source_->reserve(segment);
  if (!address) return no_block;
  const BlockId block = blocks_.add({.address = *address, .size = segment, .small = pool.small, .stream = pool.stream});
  const auto place = std::lower_bound(segments_.begin(), segments_.end(), *address,
                                      [this](BlockId id, Address wanted) { return blocks_[id].address < wanted; });
  segments_.insert(place, block);
  pool.free.insert(blocks_[block], block);
  reserved_ += segment;
  peak_reserved_ = std::max(peak_reserved_, reserved_);
  return block;
}

/// Gives back everything that nothing lives in, large pool first: PyTorch's last resort before it gives up.
void CachingAllocator::release_cached() {
  for (const bool small : {false, true}) {
    for (std::uint8_t stream = 0; stream < kStreams; ++stream) {
      Pool& pool = this->pool(small, stream);
      if (expandable_) {
        pool.range.unmap_free(blocks_, pool.free, *source_);
      } else {
        release_free_segments(pool);
      }
    }
  }
  if (expandable_) count_reserved();
}

void CachingAllocator::release_free_segments(Pool& pool) {
  pool.free.erase_if([this](const FreeList::Entry& entry) {
    const Block& block = blocks_[entry.id];
    if (block.previous != no_block || block.next != no_block) return false;
    std::erase(segments_, entry.id);
    source_->release(block.address, block.size);
    reserved_ -= block.size;
    blocks_.remove(entry.id);
    return true;
  });
}

/// Turns a free block into a used one, keeping its low end if the tail is worth a block of its own.
BlockId CachingAllocator::take(Pool& pool, FreeList::Index index, Bytes size) {
  const FreeList::Entry entry = pool.free[index];
  if (splits(pool, entry.size, size)) {
    const BlockId tail = blocks_.split(entry.id, size);
    pool.free.replace(index, blocks_[tail], tail);
  } else {
    pool.free.erase(index);
  }
  Block& block = blocks_[entry.id];
  block.state = BlockState::used;
  allocated_ += block.size;
  peak_allocated_ = std::max(peak_allocated_, allocated_);
  return entry.id;
}

void CachingAllocator::count_reserved() {
  reserved_ = 0;
  for (const Pool& pool : pools_) reserved_ += pool.range.mapped();
  peak_reserved_ = std::max(peak_reserved_, reserved_);
}

Address CachingAllocator::address(BlockId block) const { return blocks_[block].address; }
Bytes CachingAllocator::allocated() const { return allocated_; }
Bytes CachingAllocator::reserved() const { return reserved_; }
Bytes CachingAllocator::peak_allocated() const { return peak_allocated_; }
Bytes CachingAllocator::peak_reserved() const { return peak_reserved_; }
std::uint64_t CachingAllocator::retries() const { return retries_; }
const Refusal& CachingAllocator::refusal() const { return refusal_; }

void CachingAllocator::reset_peaks() {
  peak_allocated_ = allocated_;
  peak_reserved_ = reserved_;
}

void CachingAllocator::append_state(std::vector<std::uint64_t>& state) const {
  const auto used = [](const Block& block) { return std::uint64_t{block.state == BlockState::used}; };
  if (expandable_) {
    // Unmapped blocks are the gaps between the others.
    for (const Pool& pool : pools_) {
      state.push_back(pool.range.heads().size());
      for (const BlockId head : pool.range.heads()) {
        state.push_back(blocks_[head].address);
        for (BlockId id = head; id != no_block; id = blocks_[id].next) {
          if (blocks_[id].state == BlockState::unmapped) continue;
          state.push_back(blocks_[id].address << 1 | used(blocks_[id]));
          state.push_back(blocks_[id].size);
        }
        state.push_back(0);
      }
    }
  } else {
    state.push_back(segments_.size());
    for (const BlockId head : segments_) {
      state.push_back(blocks_[head].address << 1 | std::uint64_t{blocks_[head].small});
      state.push_back(blocks_[head].stream);
      for (BlockId id = head; id != no_block; id = blocks_[id].next) state.push_back(blocks_[id].size << 1 | used(blocks_[id]));
      state.push_back(0);  // no block has size 0
    }
  }
  source_->append_state(state);
}

}  // namespace whatfits
