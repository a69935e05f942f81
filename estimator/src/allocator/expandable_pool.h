// PyTorch's expandable segment: one range of addresses per pool, of which as much has memory behind it as was needed so far.
#pragma once

#include <vector>

#include "allocator/block_table.h"
#include "allocator/memory_source.h"
#include "whatfits/bytes.h"

namespace whatfits {

/// The range's blocks live in the allocator's BlockTable, the free ones in the pool's FreeList; both are passed in. Blocks
/// without memory always start and end at whole units, and no two of them are neighbours.
/// A pool has one range for good: PyTorch would open a second one if the first ran out of addresses, which needs more than
/// 9/8 of the device's memory in holes that are each too small; here that is out of memory.
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
  /// The range's first block; no_block before the first grow().
  BlockId head() const { return head_; }

 private:
  BlockId map(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id, Bytes size);
  void unmap(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id);
  std::vector<BlockId>::iterator unmapped_from(const BlockTable& blocks, Address address);

  bool small_;
  Bytes unit_;
  Address base_;
  Bytes range_;
  Bytes mapped_ = 0;
  BlockId head_ = no_block;
  std::vector<BlockId> unmapped_;  // by address
};

}  // namespace whatfits
