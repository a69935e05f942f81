// Walks a Program through the caching allocator over a virtual card.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/virtual_source.h"
#include "whatfits/config.h"
#include "whatfits/program.h"
#include "whatfits/report.h"

namespace whatfits {

/// Longest run that a fit is given to settle in.
inline constexpr int kMaxSteps = 64;

struct ReplayOptions {
  int steps = 3;               ///< at most
  bool until_settled = false;  ///< stop as soon as the allocator's state has recurred
};

/// What an observer is shown of each allocation and free, after it happened.
struct ReplayEvent {
  bool alloc = false;
  StorageId storage = 0;
  int step = 0;
  Phase phase = Phase::warmup;
  std::int16_t layer = kNoLayer;
  std::uint64_t event = 0;
  Counters counters;
};

/// A replay that can be stopped anywhere and looked at.
class Replay {
 public:
  Replay(const Program& program, const Device& device, const AllocatorConfig& config);

  /// Called after every allocation and free; returning false ends the run there.
  using Observer = std::function<bool(const ReplayEvent&)>;

  Trace run(const ReplayOptions& options, const Observer* observer = nullptr);

  const CachingAllocator& allocator() const { return allocator_; }
  /// By storage: alive at this moment.
  std::vector<bool> alive() const;
  /// By storage: its block at this moment, or no_block.
  const std::vector<BlockId>& blocks() const { return blocks_; }

 private:
  template <bool kObserved>
  bool run_events(std::size_t begin, std::size_t end, const Observer* observer);
  void read(Reading reading);
  void fail(StorageId storage);
  bool settled(int step);

  const Program& program_;
  const Device& device_;
  VirtualSource source_;
  CachingAllocator allocator_;
  std::vector<BlockId> blocks_;  ///< by storage; no_block when not alive
  Trace trace_;
  StepCounters* now_ = nullptr;  ///< of the step at work
  int step_ = 0;
  Phase phase_ = Phase::warmup;
  std::int16_t layer_ = kNoLayer;
  std::uint64_t event_ = 0;
  Bytes step_peak_ = 0;  ///< highest `allocated` since the step began
  Moment step_peak_at_;
  std::vector<std::vector<std::uint64_t>> states_;  ///< at the end of each step so far
};

/// The usual case: run it and look at the counters.
Trace replay(const Program& program, const Config& config, const ReplayOptions& options);

/// First 16 hex digits of the SHA-256 of every event's address and counters.
std::string trace_hash(const Program& program, const Config& config, int steps);

}  // namespace whatfits
