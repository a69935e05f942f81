// A measured run, told from a snapshot's events: counters at each of them, every allocation's life, and why memory ran out.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "whatfits/bytes.h"
#include "whatfits/snapshot.h"

namespace whatfits::snapshot {

inline constexpr std::size_t kNever = ~std::size_t{0};

/// One tensor's memory, from the event that made it to the one that gave it back.
struct Allocation {
  std::uint64_t address = 0;
  Bytes requested = 0;
  Bytes block = 0;        ///< what the allocator took for it
  std::size_t born = 0;   ///< index into the trace; kNever: before the recording began
  std::size_t freed = 0;  ///< kNever: alive at the end
  StackId stack = kNoStack;
};

/// After an event. PyTorch's counters of the same names.
struct MeasuredPoint {
  Bytes allocated = 0;
  Bytes active = 0;  ///< allocated, and what waits for a stream before it can be used again
  Bytes reserved = 0;
};

/// A request that could not be met.
struct Failure {
  std::size_t event = 0;
  Bytes asked = 0;
  Bytes segment = 0;      ///< what the allocator then asked of the device
  Bytes device_free = 0;  ///< what the device still had
  MeasuredPoint counters;
  bool small_pool = false;
  std::vector<Bytes> pieces;  ///< free in the pool that serves this size, largest first
  Bytes pieces_total = 0;
  Bytes other_pool = 0;  ///< free in the other pool, which cannot serve it
  /// "allocated": live tensors and this one exceed what the process can have; "reserved": it is there, in pieces too small.
  std::string bound_by;
};

/// Segments and blocks of one device at a moment.
class MeasuredPool {
 public:
  struct Block {
    Bytes size = 0;
    std::size_t allocation = kNever;  ///< index into MeasuredRun::allocations; kNever: free
    bool pending = false;             ///< freed by the script, waiting for a stream
  };
  struct Segment {
    Bytes size = 0;
    bool small = false;
    bool expandable = false;
    std::map<std::uint64_t, Block> blocks;  ///< by address; they fill the segment
  };
  explicit MeasuredPool(const AllocatorSettings& settings = {}) : settings_(settings) {}
  const std::map<std::uint64_t, Segment>& segments() const { return segments_; }
  /// What a request is rounded to. CUDACachingAllocator's round_size().
  Bytes block_size(Bytes requested) const;

  void add_segment(std::uint64_t address, Bytes size, bool small, bool expandable);
  void remove_segment(std::uint64_t address, Bytes size);
  /// Takes the block at `address` for an allocation; gives the bytes taken, 0 if no free block is there.
  Bytes take(std::uint64_t address, Bytes requested, std::size_t allocation);
  Block* find(std::uint64_t address);
  /// The block is free again, and one with its free neighbours.
  void release(std::uint64_t address);

  /// What an event did to a block.
  struct Change {
    Bytes bytes = 0;                  ///< of the block; 0: the event does not fit what is here
    std::size_t allocation = kNever;  ///< that a free_requested ended
  };
  /// All of the above, as `event` says; `next` is the index of the allocation that it may make.
  Change apply(const TraceEvent& event, std::size_t next);
  /// Blocks of all segments.
  std::size_t blocks() const;

 private:
  Segment* segment_of(std::uint64_t address);
  AllocatorSettings settings_;
  std::map<std::uint64_t, Segment> segments_;
};

struct MeasuredRun {
  std::vector<Allocation> allocations;  ///< in the order of their birth; those from before the recording first
  std::vector<MeasuredPoint> points;    ///< one for each event
  MeasuredPoint before;                 ///< when the recording began
  std::size_t peak = kNever;            ///< first event at which `allocated` was highest
  std::vector<Failure> failures;
  std::vector<std::size_t> retries;  ///< events at which cached segments were given back to make room
  std::size_t strange = 0;           ///< events that do not fit what was seen before them
};

/// Pools along a run, so that the one at any event is a short walk away.
class PoolHistory {
 public:
  /// Right after `trace[event]`; `trace` is the one that was followed.
  MeasuredPool at(const std::vector<TraceEvent>& trace, std::size_t event) const;

  /// Keeps a copy, unless enough is kept: the pool once `events` have been followed, which made `allocations`.
  void keep(std::size_t events, std::size_t allocations, const MeasuredPool& pool);

 private:
  struct Frame {
    std::size_t events, allocations;
    MeasuredPool pool;
  };
  std::vector<Frame> frames_;
  std::size_t blocks_ = 0;
};

/// Follows the trace of `device`; `history`, if given, gets pools along the way.
MeasuredRun follow(const Snapshot& snapshot, std::size_t device, PoolHistory* history = nullptr);

/// In words, for people: what was asked, what was free, in how many pieces, and what would have let it through.
std::string explain(const Failure& failure);

}  // namespace whatfits::snapshot
