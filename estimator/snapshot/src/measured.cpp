#include "whatfits/measured.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "allocator/torch_policy.h"

namespace whatfits::snapshot {

// ---- stacks ------------------------------------------------------------------------------------------------------------------------

const StackFrame* Snapshot::user_frame(StackId stack) const {
  for (const StackFrame& frame : stacks[stack]) {
    const std::string_view file = text(frame.file);
    if (!file.empty() && file.find("/torch/") == std::string_view::npos) return &frame;
  }
  return nullptr;
}

std::string Snapshot::place(const StackFrame& frame) const {
  const std::string_view file = text(frame.file);
  const std::size_t slash = file.rfind('/');
  return std::string(file.substr(slash == std::string_view::npos ? 0 : slash + 1)) + ":" + std::to_string(frame.line);
}

// ---- the pool ----------------------------------------------------------------------------------------------------------------------

MeasuredPool::Segment* MeasuredPool::segment_of(std::uint64_t address) {
  auto at = segments_.upper_bound(address);
  if (at == segments_.begin()) return nullptr;
  --at;
  return address - at->first < at->second.size ? &at->second : nullptr;
}

void MeasuredPool::add_segment(std::uint64_t address, Bytes size, bool small, bool expandable) {
  if (expandable && address > 0) {
    // A range that was mapped behind another of the same segment makes it longer.
    if (Segment* const before = segment_of(address - 1); before != nullptr && before->expandable) {
      before->size += size;
      before->blocks[address] = {.size = size};
      release(address);
      return;
    }
  }
  Segment& segment = segments_[address];
  segment = {.size = size, .small = small, .expandable = expandable, .blocks = {}};
  segment.blocks[address] = {.size = size};
}

void MeasuredPool::remove_segment(std::uint64_t address, Bytes size) {
  Segment* const segment = segment_of(address);
  if (segment == nullptr) return;
  const auto start = std::find_if(segments_.begin(), segments_.end(), [&](const auto& entry) { return &entry.second == segment; });
  if (!segment->expandable || (start->first == address && segment->size == size)) {
    segments_.erase(start);
    return;
  }
  // Part of an expandable segment: what is before and what is behind stay as segments of their own.
  Segment behind{.size = start->first + segment->size - (address + size), .small = segment->small, .expandable = true, .blocks = {}};
  Segment ahead{.size = address - start->first, .small = segment->small, .expandable = true, .blocks = {}};
  for (const auto& [at, block] : segment->blocks) {
    const std::uint64_t end = at + block.size;
    if (at < address) ahead.blocks[at] = {.size = std::min(end, address) - at, .allocation = block.allocation, .pending = block.pending};
    if (end > address + size) {
      const std::uint64_t from = std::max(at, address + size);
      behind.blocks[from] = {.size = end - from, .allocation = block.allocation, .pending = block.pending};
    }
  }
  const std::uint64_t first = start->first;
  segments_.erase(start);
  if (ahead.size > 0) segments_[first] = std::move(ahead);
  if (behind.size > 0) segments_[address + size] = std::move(behind);
}

Bytes MeasuredPool::block_size(Bytes requested) const {
  std::size_t interval = 0;  // roundup_power2_divisions() of CUDAAllocatorConfig: 1 MiB to 2 MiB is the first
  for (Bytes below = 2 * MiB; interval + 1 < settings_.divisions.size() && requested >= below; below *= 2) ++interval;
  return torch_policy::block_size(requested, settings_.divisions[interval]);
}

Bytes MeasuredPool::take(std::uint64_t address, Bytes requested, std::size_t allocation) {
  Segment* const segment = segment_of(address);
  if (segment == nullptr) return 0;
  auto at = segment->blocks.upper_bound(address);
  if (at == segment->blocks.begin()) return 0;
  --at;
  if (at->second.allocation != kNever || at->second.pending || address - at->first >= at->second.size) return 0;
  Bytes size = at->second.size;
  if (at->first != address) {  // a recording that began late may have left a gap before it
    const Bytes gap = address - at->first;
    at->second.size = gap;
    size -= gap;
    at = segment->blocks.emplace(address, Block{.size = size}).first;
  }
  const Bytes block = block_size(requested);
  if (block > size) return 0;
  const Bytes rest = size - block;
  const bool small = torch_policy::is_small(block);
  segment->small = segment->expandable ? small : segment->small;
  const bool kept_whole = !small && !segment->expandable && block >= settings_.max_split;
  if (!kept_whole && torch_policy::splits(rest, small, segment->expandable)) {
    segment->blocks[address + block] = {.size = rest};
    at->second.size = block;
  }
  at->second.allocation = allocation;
  return at->second.size;
}

MeasuredPool::Block* MeasuredPool::find(std::uint64_t address) {
  Segment* const segment = segment_of(address);
  if (segment == nullptr) return nullptr;
  const auto at = segment->blocks.find(address);
  return at == segment->blocks.end() ? nullptr : &at->second;
}

void MeasuredPool::release(std::uint64_t address) {
  Segment* const segment = segment_of(address);
  if (segment == nullptr) return;
  auto at = segment->blocks.find(address);
  if (at == segment->blocks.end()) return;
  at->second.allocation = kNever;
  at->second.pending = false;
  const auto free = [](const Block& block) { return block.allocation == kNever && !block.pending; };
  if (const auto next = std::next(at); next != segment->blocks.end() && free(next->second)) {
    at->second.size += next->second.size;
    segment->blocks.erase(next);
  }
  if (at != segment->blocks.begin()) {
    const auto previous = std::prev(at);
    if (free(previous->second)) {
      previous->second.size += at->second.size;
      segment->blocks.erase(at);
    }
  }
}

MeasuredPool::Change MeasuredPool::apply(const TraceEvent& e, std::size_t next) {
  switch (e.action) {
    case Action::segment_alloc:
    case Action::segment_map:
      add_segment(e.address, e.size, e.size == torch_policy::small_segment && e.action == Action::segment_alloc,
                  e.action == Action::segment_map);
      return {e.size, kNever};
    case Action::segment_free:
    case Action::segment_unmap:
      remove_segment(e.address, e.size);
      return {e.size, kNever};
    case Action::alloc:
      return {take(e.address, e.size, next), kNever};
    case Action::free_requested: {
      Block* const block = find(e.address);
      if (block == nullptr || block->allocation == kNever) return {};
      block->pending = true;
      return {block->size, block->allocation};
    }
    case Action::free_completed: {
      const Block* const block = find(e.address);
      if (block == nullptr || !block->pending) return {};
      const Bytes size = block->size;
      release(e.address);
      return {size, kNever};
    }
    default:
      return {};
  }
}

std::size_t MeasuredPool::blocks() const {
  std::size_t count = 0;
  for (const auto& [address, segment] : segments_) count += segment.blocks.size();
  return count;
}

void PoolHistory::keep(std::size_t events, std::size_t allocations, const MeasuredPool& pool) {
  constexpr std::size_t kMostBlocks = std::size_t{1} << 20;  // some 80 MiB
  const std::size_t more = pool.blocks();
  if (!frames_.empty() && blocks_ + more > kMostBlocks) return;
  blocks_ += more;
  frames_.push_back({events, allocations, pool});
}

MeasuredPool PoolHistory::at(const std::vector<TraceEvent>& trace, std::size_t event) const {
  const std::size_t events = std::min(event + 1, trace.size());
  const auto after = std::upper_bound(frames_.begin(), frames_.end(), events, [](std::size_t n, const Frame& f) { return n < f.events; });
  if (after == frames_.begin()) return MeasuredPool{};
  const Frame& frame = *std::prev(after);
  MeasuredPool pool = frame.pool;
  std::size_t next = frame.allocations;
  for (std::size_t i = frame.events; i < events; ++i) {
    pool.apply(trace[i], next);
    if (trace[i].action == Action::alloc) ++next;
  }
  return pool;
}

// ---- the walk ----------------------------------------------------------------------------------------------------------------------

namespace {

class Walk {
 public:
  Walk(const Snapshot& snapshot, std::size_t device)
      : snapshot_(snapshot), trace_(snapshot.traces[device]), device_(static_cast<int>(device)), pool_(snapshot.settings) {}

  MeasuredRun run(PoolHistory* history) {
    what_was_there_before();
    run_.before = now_;
    const std::size_t between = trace_.size() / 32 + 1024;
    Bytes highest = 0;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      if (history != nullptr && i % between == 0) history->keep(i, run_.allocations.size(), pool_);
      one(i, trace_[i]);
      run_.points.push_back(now_);
      if (now_.allocated > highest) {
        highest = now_.allocated;
        run_.peak = i;
      }
    }
    return std::move(run_);
  }

 private:
  /// The recording may have begun late: what it frees without having made it, and what is there at the end without having been made.
  /// Where events past its end were left out, each address's first one says whether something was there.
  void what_was_there_before() {
    std::unordered_map<std::uint64_t, std::size_t> alive;  // made in the recording
    std::map<std::uint64_t, Bytes> segments;               // likewise
    std::vector<Allocation> before;
    std::vector<std::pair<std::uint64_t, Bytes>> segments_before;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      const TraceEvent& e = trace_[i];
      if (e.action == Action::alloc) alive[e.address] = i;
      if (e.action == Action::free_requested && alive.erase(e.address) == 0)
        before.push_back({e.address, e.size, pool_.block_size(e.size), kNever, kNever, e.stack});
      if (e.action == Action::segment_alloc || e.action == Action::segment_map) segments[e.address] = e.size;
      if ((e.action == Action::segment_free || e.action == Action::segment_unmap) && segments.erase(e.address) == 0)
        segments_before.emplace_back(e.address, e.size);
    }
    std::unordered_set<std::uint64_t> blocks_after;
    std::unordered_set<std::uint64_t> segments_after;
    const auto device = static_cast<std::size_t>(device_);
    for (const TraceEvent& e : device < snapshot_.after.size() ? snapshot_.after[device] : std::vector<TraceEvent>{}) {
      const bool of_a_block = e.action == Action::alloc || e.action == Action::free_requested;
      (of_a_block ? blocks_after : segments_after).insert(e.address);
      if (e.action == Action::free_requested && alive.count(e.address) == 0)
        before.push_back({e.address, e.size, pool_.block_size(e.size), kNever, kNever, e.stack});
      if ((e.action == Action::segment_free || e.action == Action::segment_unmap) && segments.count(e.address) == 0)
        segments_before.emplace_back(e.address, e.size);
    }
    for (const SnapshotSegment& segment : snapshot_.segments) {
      if (segment.device != device_) continue;
      const auto made = segments.upper_bound(segment.address + segment.size - 1);
      const bool in_recording = made != segments.begin() && std::prev(made)->first >= segment.address;
      if (!in_recording && segment.size > 0 && segments_after.count(segment.address) == 0)
        segments_before.emplace_back(segment.address, segment.size);
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.state != SnapshotBlock::State::active_allocated || alive.count(block.address) != 0) continue;
        if (blocks_after.count(block.address) != 0) continue;
        before.push_back({block.address, block.requested != 0 ? block.requested : block.size, block.size, kNever, kNever, block.stack});
      }
    }
    for (const auto& [address, size] : segments_before) {
      pool_.add_segment(address, size, size == torch_policy::small_segment, false);
      now_.reserved += size;
    }
    std::sort(before.begin(), before.end(), [](const Allocation& a, const Allocation& b) { return a.address < b.address; });
    for (Allocation& allocation : before) {
      const Bytes taken = pool_.take(allocation.address, allocation.requested, run_.allocations.size());
      if (taken == 0) continue;
      allocation.block = taken;
      now_.allocated += taken;
      now_.active += taken;
      run_.allocations.push_back(allocation);
    }
  }

  void one(std::size_t i, const TraceEvent& e) {
    const auto [bytes, ended] = pool_.apply(e, run_.allocations.size());
    switch (e.action) {
      case Action::segment_alloc:
      case Action::segment_map:
        now_.reserved += bytes;
        giving_back_ = false;
        break;
      case Action::segment_free:
      case Action::segment_unmap:
        now_.reserved -= std::min(now_.reserved, bytes);
        giving_back_ = true;
        gave_back_at_ = i;
        break;
      case Action::alloc:
        run_.allocations.push_back({e.address, e.size, bytes, i, kNever, e.stack});
        now_.allocated += bytes;
        now_.active += bytes;
        break;
      case Action::free_requested:
        if (ended != kNever) run_.allocations[ended].freed = i;
        now_.allocated -= std::min(now_.allocated, bytes);
        break;
      case Action::free_completed:
        now_.active -= std::min(now_.active, bytes);
        break;
      case Action::out_of_memory:
        fail(i, e);
        break;
      case Action::snapshot:
      case Action::other:
        break;
    }
    const bool of_a_block = e.action == Action::alloc || e.action == Action::free_requested || e.action == Action::free_completed;
    if (of_a_block && bytes == 0) ++run_.strange;
    if (giving_back_ && i != gave_back_at_) giving_back_ = false;
    // Segments given back right before the device is asked again, or refuses: PyTorch's own retry. empty_cache() has no such sequel.
    const bool next_asks =
        i + 1 < trace_.size() && (trace_[i + 1].action == Action::segment_alloc || trace_[i + 1].action == Action::segment_map ||
                                  trace_[i + 1].action == Action::out_of_memory);
    if (giving_back_ && next_asks) run_.retries.push_back(i);
  }

  void fail(std::size_t i, const TraceEvent& e) {
    Failure failure;
    failure.event = i;
    failure.asked = e.size;
    failure.device_free = e.address;
    failure.counters = now_;
    const Bytes block = pool_.block_size(e.size);
    failure.segment = torch_policy::segment_size(block);
    failure.small_pool = torch_policy::is_small(block);
    for (const auto& [address, segment] : pool_.segments()) {
      for (const auto& [at, piece] : segment.blocks) {
        if (piece.allocation != kNever || piece.pending) continue;
        if (segment.small != failure.small_pool) {
          failure.other_pool += piece.size;
        } else {
          failure.pieces.push_back(piece.size);
          failure.pieces_total += piece.size;
        }
      }
    }
    std::sort(failure.pieces.rbegin(), failure.pieces.rend());
    failure.bound_by = now_.active + block > now_.reserved + failure.device_free ? "allocated" : "reserved";
    run_.failures.push_back(std::move(failure));
  }

  const Snapshot& snapshot_;
  const std::vector<TraceEvent>& trace_;
  int device_;
  MeasuredPool pool_;
  MeasuredRun run_;
  MeasuredPoint now_;
  bool giving_back_ = false;
  std::size_t gave_back_at_ = 0;
};

}  // namespace

MeasuredRun follow(const Snapshot& snapshot, std::size_t device, PoolHistory* history) {
  if (device >= snapshot.traces.size()) return {};
  return Walk(snapshot, device).run(history);
}

}  // namespace whatfits::snapshot
