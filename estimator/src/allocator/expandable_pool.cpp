#include "allocator/expandable_pool.h"

#include <algorithm>

#include "allocator/torch_policy.h"

namespace whatfits {

ExpandablePool::ExpandablePool(bool small, Bytes total)
    : small_(small),
      unit_(torch_policy::expandable_unit(small)),
      next_base_(torch_policy::expandable_base(small)),
      range_(torch_policy::expandable_range(total, small)) {}

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
  if (block == no_block && size <= range_) block = open_range(blocks);
  if (block == no_block) return no_block;
  if (blocks[block].state == BlockState::unmapped) block = map(blocks, free, source, block, size);
  while (block != no_block && blocks[block].size < size) {
    block = map(blocks, free, source, blocks[block].next, size - blocks[block].size);
  }
  return block;
}

BlockId ExpandablePool::open_range(BlockTable& blocks) {
  const BlockId head = blocks.add({.address = next_base_, .size = range_, .state = BlockState::unmapped, .small = small_});
  heads_.insert(heads_.begin(), head);
  unmapped_.insert(unmapped_.begin(), head);
  next_base_ -= round_up(range_, torch_policy::address_piece);
  return head;
}

/// Where the range that holds `address` starts.
Address ExpandablePool::range_of(const BlockTable& blocks, Address address) const {
  std::size_t i = heads_.size() - 1;
  while (blocks[heads_[i]].address > address) --i;
  return blocks[heads_[i]].address;
}

/// Maps the first `size` bytes of an unmapped block (or all of it), in whole units; the free block that they end up in.
BlockId ExpandablePool::map(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id, Bytes size) {
  const Bytes bytes = std::min(round_up(size, unit_), blocks[id].size);
  if (!source.map(blocks[id].address, bytes)) return no_block;
  mapped_ += bytes;
  const auto listed = unmapped_from(blocks, blocks[id].address);
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
  const Address base = range_of(blocks, blocks[id].address);
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
    unmapped_.erase(unmapped_from(blocks, high));
    blocks.absorb_next(id);
  }
  if (blocks.is(blocks[id].previous, BlockState::unmapped)) {
    blocks.absorb_next(blocks[id].previous);
  } else {
    unmapped_.insert(unmapped_from(blocks, low), id);
  }
}

std::vector<BlockId>::iterator ExpandablePool::unmapped_from(const BlockTable& blocks, Address address) {
  return std::lower_bound(unmapped_.begin(), unmapped_.end(), address,
                          [&](BlockId id, Address wanted) { return blocks[id].address < wanted; });
}

}  // namespace whatfits
