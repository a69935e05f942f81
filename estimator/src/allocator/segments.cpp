// The allocator's view of itself for reports. In a file of its own, since nothing here is called while a step is replayed.
#include <algorithm>

#include "allocator/caching_allocator.h"

namespace whatfits {

std::vector<SegmentView> CachingAllocator::segments() const {
  std::vector<SegmentView> views;
  const auto add = [&](BlockId head) {
    bool open = false;  // an unmapped block ends a segment
    for (BlockId id = head; id != no_block; id = blocks_[id].next) {
      const Block& block = blocks_[id];
      if (block.state == BlockState::unmapped) {
        open = false;
        continue;
      }
      if (!open) views.push_back({.address = block.address, .size = 0, .small = block.small, .stream = block.stream, .blocks = {}});
      open = true;
      views.back().size += block.size;
      views.back().blocks.push_back({block.address, block.size, block.state == BlockState::used, id});
    }
  };
  for (const BlockId head : segments_) add(head);
  for (const Pool& pool : pools_) {
    for (const BlockId head : pool.range.heads()) add(head);
  }
  // Of the library's ways to sort the one with the least code, which a browser has to load.
  const auto by_address = [](const SegmentView& a, const SegmentView& b) { return a.address < b.address; };
  std::make_heap(views.begin(), views.end(), by_address);
  std::sort_heap(views.begin(), views.end(), by_address);
  return views;
}

}  // namespace whatfits
