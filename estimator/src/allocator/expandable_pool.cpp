#include "allocator/expandable_pool.h"

#include <algorithm>

#include "allocator/torch_policy.h"

namespace whatfits {

ExpandablePool::ExpandablePool(bool small, std::uint8_t stream, Bytes total)
    : small_(small), stream_(stream), unit_(torch_policy::expandable_unit(small)), range_(torch_policy::expandable_range(total, small)) {}

FreeList::Index ExpandablePool::find(const BlockTable& blocks, const FreeList& free, Bytes size) const {
  const auto reach = [&](FreeList::Index index) {
    const BlockId next = blocks[free[index].id].next;
    return free[index].size + (blocks.is(next, BlockState::unmapped) ? blocks[next].size : 0);
  };
  FreeList::Index index = free.fit(size);
  if (index == free.size()) return FreeList::none;
  while (index + 1 < free.size() && reach(index + 1) < reach(index)) ++index;
  return index;
}

BlockId ExpandablePool::grow(BlockTable& blocks, FreeList& free, MemorySource& source, Bytes size) {
  const auto has_room = [&](BlockId id) {
    Bytes room = 0;
    for (; id != no_block && room < size && blocks[id].state != BlockState::used; id = blocks[id].next) room += blocks[id].size;
    return room >= size;
  };
  BlockId block = no_block;
  for (const BlockId id : unmapped_) {
    const BlockId previous = blocks[id].previous;
    const BlockId candidate = blocks.is(previous, BlockState::free) ? previous : id;
    if (!has_room(candidate)) continue;
    block = candidate;
    break;
  }
  if (block == no_block) block = add_range(blocks, source);
  if (block == no_block) return no_block;
  if (blocks[block].state == BlockState::unmapped) block = map(blocks, free, source, block, size);
  while (block != no_block && blocks[block].size < size) {
    const BlockId next = blocks[block].next;  // none when the request is larger than a whole range
    block = next == no_block ? no_block : map(blocks, free, source, next, size - blocks[block].size);
  }
  return block;
}

BlockId ExpandablePool::add_range(BlockTable& blocks, MemorySource& source) {
  if (range_ == 0) return no_block;
  const std::optional<Address> address = source.reserve_range(range_);
  if (!address) return no_block;
  const BlockId head = blocks.add({.address = *address, .size = range_, .state = BlockState::unmapped, .small = small_, .stream = stream_});
  heads_.insert(from(heads_, blocks, *address), head);
  unmapped_.insert(from(unmapped_, blocks, *address), head);
  return head;
}

/// Maps the first `size` bytes of an unmapped block (or all of it), in whole units; the free block that they end up in.
BlockId ExpandablePool::map(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id, Bytes size) {
  const Bytes bytes = std::min(round_up(size, unit_), blocks[id].size);
  if (!source.map(blocks[id].address, bytes)) return no_block;
  mapped_ += bytes;
  const auto listed = from(unmapped_, blocks, blocks[id].address);
  if (bytes < blocks[id].size) {
    *listed = blocks.split(id, bytes);
  } else {
    unmapped_.erase(listed);
  }
  return insert_free(blocks, free, id);
}

void ExpandablePool::unmap_free(BlockTable& blocks, FreeList& free, MemorySource& source) {
  std::vector<BlockId> ids;
  ids.reserve(free.size());
  for (FreeList::Index i = 0; i < free.size(); ++i) ids.push_back(free[i].id);
  for (const BlockId id : ids) unmap(blocks, free, source, id);
}

void ExpandablePool::unmap(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id) {
  // Units count from the range's start, which need not be a multiple of 20 MiB.
  const auto above = from(heads_, blocks, blocks[id].address + 1);
  const Address base = blocks[*(above - 1)].address;
  const Address low = base + round_up(blocks[id].address - base, unit_);
  const Address high = base + (blocks[id].address + blocks[id].size - base) / unit_ * unit_;
  if (high <= low) return;

  free.erase(free.index(blocks[id]));
  if (high < blocks[id].address + blocks[id].size) {
    const BlockId after = blocks.split(id, high - blocks[id].address);
    free.insert(blocks[after], after);
  }
  if (low > blocks[id].address) {
    const BlockId before = id;
    id = blocks.split(before, low - blocks[before].address);
    free.insert(blocks[before], before);
  }
  source.unmap(low, high - low);
  mapped_ -= high - low;

  blocks[id].state = BlockState::unmapped;
  if (blocks.is(blocks[id].next, BlockState::unmapped)) {
    unmapped_.erase(from(unmapped_, blocks, high));
    blocks.absorb_next(id);
  }
  if (const BlockId previous = blocks[id].previous; blocks.is(previous, BlockState::unmapped)) {
    blocks.absorb_next(previous);
    id = previous;
  } else {
    unmapped_.insert(from(unmapped_, blocks, low), id);
  }
  if (blocks[id].previous != no_block || blocks[id].next != no_block) return;
  unmapped_.erase(from(unmapped_, blocks, base));
  heads_.erase(from(heads_, blocks, base));
  source.release_range(base, range_);
  blocks.remove(id);
}

std::vector<BlockId>::iterator ExpandablePool::from(std::vector<BlockId>& ids, const BlockTable& blocks, Address address) {
  return std::lower_bound(ids.begin(), ids.end(), address, [&](BlockId id, Address wanted) { return blocks[id].address < wanted; });
}

}  // namespace whatfits
