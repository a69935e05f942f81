// PyTorch's CUDACachingAllocator as a policy over a MemorySource: one device; blocks belong to
// the stream they were first allocated on.
//
// Source of the rules: c10/cuda/CUDACachingAllocator.cpp of PyTorch 2.6, and event traces of it (fixtures/torch/traces).
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "allocator/block_table.h"
#include "allocator/expandable_pool.h"
#include "allocator/memory_source.h"
#include "whatfits/bytes.h"
#include "whatfits/config.h"
#include "whatfits/program.h"

namespace whatfits {

/// One block of a segment, for pictures and explanations.
struct BlockView {
  Address address = 0;
  Bytes size = 0;
  bool allocated = false;
  BlockId id = no_block;
};
struct SegmentView {
  Address address = 0;
  Bytes size = 0;
  bool small = false;             ///< of the pool for requests up to 1 MiB
  std::uint8_t stream = 0;        ///< whose pool it belongs to
  std::vector<BlockView> blocks;  ///< in address order; they cover the segment
};

/// What cudaMalloc refused, after everything that could be given back had been.
struct Refusal {
  Bytes requested = 0;  ///< the tensor
  Bytes segment = 0;    ///< the segment it would have taken
  Bytes available = 0;  ///< free on the device at that moment
};

class CachingAllocator {
 public:
  using BlockId = whatfits::BlockId;

  /// `source` must outlive the allocator.
  /// `total` is the device's whole memory; only expandable segments look at it (their address range is 9/8 of it).
  CachingAllocator(MemorySource& source, const AllocatorConfig& config, Bytes total);

  /// A block of at least `requested` bytes (0 counts as 1; over 1 EiB is refused unasked), or nothing: out of memory, and refusal() says
  /// what failed.
  /// `stream` < kStreams: from that stream's own pool.
  std::optional<BlockId> allocate(Bytes requested, std::uint8_t stream = 0);
  void free(BlockId block);

  Address address(BlockId block) const;
  Bytes allocated() const;       ///< bytes in live blocks, as torch.cuda.memory_allocated()
  Bytes reserved() const;        ///< bytes in segments, as torch.cuda.memory_reserved()
  Bytes peak_allocated() const;  ///< since reset_peaks()
  Bytes peak_reserved() const;
  void reset_peaks();
  std::uint64_t retries() const;  ///< times that cached segments were given back to satisfy a request
  const Refusal& refusal() const;

  /// Segments in address order, for the segment view and for explaining a failure. Of expandable segments each mapped stretch
  /// counts as one, as in torch.cuda.memory_snapshot().
  std::vector<SegmentView> segments() const;
  /// Appends the whole state (segments and blocks, free and used, by address, then the source's own).
  /// Equal states answer every later call alike; peaks, retries and block ids are not part of it.
  void append_state(std::vector<std::uint64_t>& state) const;

 private:
  struct Pool {
    bool small;
    std::uint8_t stream;
    FreeList free;
    ExpandablePool range;  ///< unused without expandable segments
  };

  static std::array<Pool, 2 * std::size_t{kStreams}> make_pools(Bytes total);
  Pool& pool(bool small, std::uint8_t stream) { return pools_[2 * std::size_t{stream} + std::size_t{small}]; }
  bool splits(const Pool& pool, Bytes block, Bytes size) const;
  bool release_oversize(Pool& pool, Bytes size);
  FreeList::Index find(const Pool& pool, Bytes size) const;
  BlockId extend(Pool& pool, Bytes size);
  void release_cached();
  void release_free_segments(Pool& pool);
  BlockId take(Pool& pool, FreeList::Index index, Bytes size);
  void count_reserved();

  MemorySource* source_;
  bool expandable_;
  Bytes max_split_;  ///< blocks of at least this size are not split; the largest number for no limit
  Bytes divisions_;  ///< roundup_power2_divisions
  BlockTable blocks_;
  std::array<Pool, 2 * std::size_t{kStreams}> pools_;  ///< large and small of each stream
  std::vector<BlockId> segments_;                      // first blocks, by address; without expandable segments
  Bytes allocated_ = 0;
  Bytes reserved_ = 0;
  Bytes peak_allocated_ = 0;
  Bytes peak_reserved_ = 0;
  std::uint64_t retries_ = 0;
  Refusal refusal_;
};

}  // namespace whatfits
