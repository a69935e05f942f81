// PyTorch's expandable segments: ranges of addresses, of which as much has memory behind it as was needed so far.
#pragma once

#include <vector>

#include "allocator/block_table.h"
#include "allocator/memory_source.h"
#include "whatfits/bytes.h"

namespace whatfits {

/// The range's blocks live in the allocator's BlockTable, the free ones in the pool's FreeList; both are passed in. Blocks
/// without memory always start and end at whole units, and no two of them are neighbours.
/// A pool lives in one range, 9/8 of the device's memory, until that has no hole left that is large enough: then it opens
/// another, below the ones it has (CUDACachingAllocator's find_expandable_block).
class ExpandablePool {
 public:
  ExpandablePool(bool small, Bytes total);

  /// Best fit, where a free block with unmapped space behind it counts with that space: the growing end is the last resort.
  /// FreeList::none if no free block is large enough.
  FreeList::Index find(const BlockTable& blocks, const FreeList& free, Bytes size) const;
  /// Maps as much as a block of `size` bytes needs, at the lowest unmapped place with room (and from the free block before it,
  /// if any). The block is then free and listed. no_block when memory or addresses run out; what was mapped on the way stays.
  BlockId grow(BlockTable& blocks, FreeList& free, MemorySource& source, Bytes size);
  /// Gives back the whole units inside free blocks, smallest block first.
  void unmap_free(BlockTable& blocks, FreeList& free, MemorySource& source);

  Bytes mapped() const { return mapped_; }
  /// The first block of each range, in address order; empty before the first grow().
  const std::vector<BlockId>& heads() const { return heads_; }

 private:
  BlockId map(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id, Bytes size);
  void unmap(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id);
  BlockId open_range(BlockTable& blocks);
  Address range_of(const BlockTable& blocks, Address address) const;
  std::vector<BlockId>::iterator unmapped_from(const BlockTable& blocks, Address address);

  bool small_;
  Bytes unit_;
  Address next_base_;              // where the next range will start
  Bytes range_;
  Bytes mapped_ = 0;
  std::vector<BlockId> heads_;     // by address
  std::vector<BlockId> unmapped_;  // by address
};

}  // namespace whatfits
