#include "allocator/block_table.h"

#include <algorithm>

namespace whatfits {

BlockId BlockTable::add(const Block& block) {
  if (recycled_ == no_block) {
    blocks_.push_back(block);
    return static_cast<BlockId>(blocks_.size() - 1);
  }
  const BlockId id = recycled_;
  recycled_ = blocks_[id].next;
  blocks_[id] = block;
  return id;
}

void BlockTable::remove(BlockId id) {
  blocks_[id].next = recycled_;
  recycled_ = id;
}

BlockId BlockTable::split(BlockId id, Bytes size) {
  Block tail = blocks_[id];
  tail.address += size;
  tail.size -= size;
  tail.previous = id;
  const BlockId tail_id = add(tail);
  blocks_[id].size = size;
  blocks_[id].next = tail_id;
  if (tail.next != no_block) blocks_[tail.next].previous = tail_id;
  return tail_id;
}

void BlockTable::absorb_next(BlockId id) {
  Block& block = blocks_[id];
  const BlockId absorbed = block.next;
  block.size += blocks_[absorbed].size;
  block.next = blocks_[absorbed].next;
  if (block.next != no_block) blocks_[block.next].previous = id;
  remove(absorbed);
}

FreeList::Index FreeList::lower_bound(Bytes size, Address address) const {
  const auto before = [address](const Entry& entry, Bytes wanted) {
    return entry.size < wanted || (entry.size == wanted && entry.address < address);
  };
  return static_cast<Index>(std::lower_bound(entries_.begin(), entries_.end(), size, before) - entries_.begin());
}

void FreeList::insert(const Block& block, BlockId id) {
  const auto place = entries_.begin() + static_cast<std::ptrdiff_t>(index(block));
  entries_.insert(place, Entry{block.size, block.address, id});
}

void FreeList::erase(Index index) { entries_.erase(entries_.begin() + static_cast<std::ptrdiff_t>(index)); }

void FreeList::replace(Index index, const Block& block, BlockId id) {
  Index place = this->index(block);
  const auto begin = entries_.begin();
  const auto at = [begin](Index i) { return begin + static_cast<std::ptrdiff_t>(i); };
  if (place > index) {
    std::move(at(index + 1), at(place), at(index));
    --place;
  } else {
    std::move_backward(at(place), at(index), at(index + 1));
  }
  entries_[place] = Entry{block.size, block.address, id};
}

BlockId insert_free(BlockTable& blocks, FreeList& free, BlockId id) {
  Block& block = blocks[id];
  block.state = BlockState::free;
  const bool with_next = blocks.is(block.next, BlockState::free);
  if (blocks.is(block.previous, BlockState::free)) {
    const BlockId low = block.previous;
    if (with_next) {
      free.erase(free.index(blocks[block.next]));
      blocks.absorb_next(id);
    }
    const FreeList::Index listed = free.index(blocks[low]);
    blocks.absorb_next(low);
    free.replace(listed, blocks[low], low);
    return low;
  }
  if (with_next) {
    const FreeList::Index listed = free.index(blocks[block.next]);
    blocks.absorb_next(id);
    free.replace(listed, block, id);
    return id;
  }
  free.insert(block, id);
  return id;
}

}  // namespace whatfits
