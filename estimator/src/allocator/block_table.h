// The allocator's blocks and its lists of free ones, in flat arrays: a replay makes thousands of both per training step, and
// none of them may cost a heap allocation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

#include "allocator/memory_source.h"
#include "whatfits/bytes.h"

namespace whatfits {

using BlockId = std::uint32_t;
inline constexpr BlockId no_block = std::numeric_limits<BlockId>::max();

/// Unmapped: addresses of an expandable segment without memory behind them.
enum class BlockState : std::uint8_t { free, used, unmapped };

struct Block {
  Address address = 0;
  Bytes size = 0;
  BlockId previous = no_block;  ///< neighbours within the segment
  BlockId next = no_block;
  BlockState state = BlockState::free;
  bool small = false;       ///< of the small pool
  std::uint8_t stream = 0;  ///< whose pool it belongs to
};

/// All blocks by id; ids are used again. In a split and in a merge the lower block keeps its id, so the id of a segment's
/// first block never changes.
class BlockTable {
 public:
  Block& operator[](BlockId id) { return blocks_[id]; }
  const Block& operator[](BlockId id) const { return blocks_[id]; }

  BlockId add(const Block& block);
  void remove(BlockId id);
  /// Cuts the block after `size` bytes; the tail is a new block of the same state. 0 < size < the block's size.
  BlockId split(BlockId id, Bytes size);
  /// Makes the next block part of this one.
  void absorb_next(BlockId id);
  bool is(BlockId id, BlockState state) const { return id != no_block && blocks_[id].state == state; }

 private:
  std::vector<Block> blocks_;
  BlockId recycled_ = no_block;  // a chain through `next`
};

/// The free blocks of a pool, sorted by size, then address: the order in which best fit looks at them.
class FreeList {
 public:
  using Index = std::size_t;
  static constexpr Index none = std::numeric_limits<Index>::max();
  struct Entry {
    Bytes size;
    Address address;
    BlockId id;
  };

  std::size_t size() const { return entries_.size(); }
  const Entry& operator[](Index index) const { return entries_[index]; }
  /// The smallest block of at least `size` bytes, the lowest among equals; size() if there is none.
  Index fit(Bytes size) const { return lower_bound(size, 0); }
  /// Where a block of the list stands.
  Index index(const Block& block) const { return lower_bound(block.size, block.address); }

  void insert(const Block& block, BlockId id);
  void erase(Index index);
  /// erase() and insert() in one: only what stands between the two places moves.
  void replace(Index index, const Block& block, BlockId id);
  /// Drops the entries of which `drop` says so, asking in order.
  template <typename Drop>
  void erase_if(Drop drop) {
    Index kept = 0;
    for (const Entry& entry : entries_) {
      if (!drop(entry)) entries_[kept++] = entry;
    }
    entries_.resize(kept);
  }

 private:
  Index lower_bound(Bytes size, Address address) const;

  std::vector<Entry> entries_;
};

/// Marks a block free, merges it with the free blocks beside it and lists the result, whose id is returned.
BlockId insert_free(BlockTable& blocks, FreeList& free, BlockId id);

}  // namespace whatfits
