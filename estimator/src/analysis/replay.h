// Walks a Program through the caching allocator: over a virtual card, or over real memory with kernels that compute (Machine).
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

/// What computes while the walk goes on. A replay has none; native/src/measure has the one for all devices.
class Machine {
 public:
  virtual ~Machine() = default;
  /// Runs a kernel. Its operands are alive: Replay::address() says where.
  virtual void op(const OpInfo& op) = 0;
  /// `bytes` at `address` are about to be given back; nothing reads them again.
  virtual void freeing(Address address, Bytes bytes) = 0;
  /// The script reads its counters.
  virtual void reading(Reading reading) = 0;
  /// The script enters a block, or leaves the last (kNoLayer).
  virtual void layer(std::int16_t layer) = 0;
};

/// A replay that can be stopped anywhere and looked at. setup(), then step() as often as one likes; or run().
class Replay {
 public:
  Replay(const Program& program, const Device& device, const AllocatorConfig& config);
  /// With memory and kernels of the caller's, which must outlive it.
  Replay(const Program& program, const Device& device, const AllocatorConfig& config, MemorySource& source, Machine& machine);
  Replay(const Replay&) = delete;
  Replay& operator=(const Replay&) = delete;

  /// Called after every allocation and free; returning false ends the run there.
  using Observer = std::function<bool(const ReplayEvent&)>;

  Trace run(const ReplayOptions& options, const Observer* observer = nullptr);

  /// Warm-up, model and optimizer. False when memory ran out, or the observer said stop: then there is no step to take.
  bool setup(const Observer* observer = nullptr);
  /// The next step. False as above.
  bool step(const Observer* observer = nullptr);
  const Trace& trace() const { return trace_; }
  /// The step at work, from 1; 0 during setup.
  int step_number() const { return step_; }
  Phase phase() const { return phase_; }

  const CachingAllocator& allocator() const { return allocator_; }
  /// By storage: alive at this moment.
  std::vector<bool> alive() const;
  /// By storage: its block at this moment, or no_block.
  const std::vector<BlockId>& blocks() const { return blocks_; }
  bool alive(StorageId storage) const { return blocks_[storage] != no_block; }
  /// Of a storage that is alive.
  Address address(StorageId storage) const { return allocator_.address(blocks_[storage]); }

 private:
  template <bool kWatched>
  bool run_events(std::size_t begin, std::size_t end, const Observer* observer);
  bool part(std::size_t begin, std::size_t end, const Observer* observer);
  void count_failure();
  void read(Reading reading);
  void fail(StorageId storage);
  bool settled(int step);

  const Program& program_;
  const Device& device_;
  VirtualSource card_;  ///< where there is no other source
  Machine* machine_ = nullptr;
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
