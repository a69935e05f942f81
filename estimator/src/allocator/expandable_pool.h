// PyTorch's expandable segments: ranges of addresses, of which as much has memory behind it as was needed so far.
#pragma once

#include <vector>

#include "allocator/block_table.h"
#include "allocator/memory_source.h"
#include "whatfits/bytes.h"

namespace whatfits {

/// The ranges' blocks live in the allocator's BlockTable, the free ones in the pool's FreeList; both are passed in. Blocks
/// without memory always start and end at whole units, and no two of them are neighbours.
/// A pool has one range, of more addresses than the device has memory; another when holes that are each too small use those up. A
/// range that a retry leaves without any memory is given back.
class ExpandablePool {
 public:
  ExpandablePool(bool small, std::uint8_t stream, Bytes total);

  /// Best fit, where a free block with unmapped space behind it counts with that space: the growing end is the last resort.
  /// FreeList::none if no free block is large enough.
  FreeList::Index find(const BlockTable& blocks, const FreeList& free, Bytes size) const;
  /// Maps as much as a block of `size` bytes needs, at the lowest unmapped place with room (and from the free block before it,
  /// if any), in a new range if there is none. The block is then free and listed. no_block when memory or addresses run out; what was
  /// mapped on the way stays.
  BlockId grow(BlockTable& blocks, FreeList& free, MemorySource& source, Bytes size);
  /// Gives back the whole units inside free blocks, smallest block first.
  void unmap_free(BlockTable& blocks, FreeList& free, MemorySource& source);

  Bytes mapped() const { return mapped_; }
  /// A range by its first block, which starts where the range does. By address.
  const std::vector<BlockId>& heads() const { return heads_; }

 private:
  BlockId add_range(BlockTable& blocks, MemorySource& source);
  BlockId map(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id, Bytes size);
  void unmap(BlockTable& blocks, FreeList& free, MemorySource& source, BlockId id);
  /// The first of `ids`, which are by address, at or above `address`.
  static std::vector<BlockId>::iterator from(std::vector<BlockId>& ids, const BlockTable& blocks, Address address);

  bool small_;
  std::uint8_t stream_;  // its blocks belong to it: where they are listed when they are free again
  Bytes unit_;
  Bytes range_;
  Bytes mapped_ = 0;
  std::vector<BlockId> heads_;
  std::vector<BlockId> unmapped_;  // by address
};

}  // namespace whatfits
