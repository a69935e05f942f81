#include "analysis/replay.h"

#include <algorithm>

#include "program/sha256.h"

namespace whatfits {

Replay::Replay(const Program& program, const Device& device, const AllocatorConfig& config)
    : program_(program),
      device_(device),
      card_(static_cast<Bytes>(device.free_mib) * MiB),
      allocator_(card_, config, static_cast<Bytes>(device.total_mib) * MiB),
      blocks_(program.storages.size(), no_block) {}

Replay::Replay(const Program& program, const Device& device, const AllocatorConfig& config, MemorySource& source, Machine& machine)
    : program_(program),
      device_(device),
      card_(0),
      machine_(&machine),
      allocator_(source, config, static_cast<Bytes>(device.total_mib) * MiB),
      blocks_(program.storages.size(), no_block) {}

std::vector<bool> Replay::alive() const {
  std::vector<bool> alive(blocks_.size());
  for (std::size_t i = 0; i < blocks_.size(); ++i) alive[i] = blocks_[i] != no_block;
  return alive;
}

void Replay::read(Reading reading) {
  const Counters counters{allocator_.allocated(), allocator_.reserved()};
  switch (reading) {
    case Reading::after_warmup:
      trace_.after_warmup = counters;
      break;
    case Reading::after_model:
      trace_.after_model = counters;
      break;
    case Reading::after_optimizer:
      trace_.after_optimizer = counters;
      break;
    case Reading::before:
      now_->before = counters;
      break;
    case Reading::after_forward:
      now_->after_forward = counters;
      break;
    case Reading::after_backward:
      now_->after_backward = counters;
      break;
    case Reading::after_optimizer_step:
      now_->after_optimizer_step = counters;
      break;
    case Reading::after_zero_grad:
      now_->after_zero_grad = counters;
      break;
    case Reading::end_of_step:
      now_->peak = Counters{allocator_.peak_allocated(), allocator_.peak_reserved()};
      break;
  }
}

void Replay::fail(StorageId storage) {
  const Refusal& refusal = allocator_.refusal();
  OutOfMemory oom;
  const StorageInfo& info = program_.storages[storage];
  oom.at = {step_, phase_, layer_, info.op, event_, info.bytes};
  oom.segment = refusal.segment;
  oom.tensor = info.bytes;
  oom.counters = {allocator_.allocated(), allocator_.reserved()};
  oom.free = refusal.available;
  for (const SegmentView& segment : allocator_.segments()) {
    for (const BlockView& block : segment.blocks) {
      if (block.allocated) continue;
      oom.cached_free += block.size;
      if (block.size > oom.largest_piece) oom.largest_piece = block.size;
    }
  }
  oom.peak = {allocator_.peak_allocated(), allocator_.peak_reserved()};  // reset when the step began
  if (program_.peak_of_whole_run) {
    oom.peak = {std::max(oom.peak.allocated, trace_.peak.allocated), std::max(oom.peak.reserved, trace_.peak.reserved)};
  }
  oom.message = "CUDA out of memory. Tried to allocate " + format_size(oom.segment) + ". GPU 0 has a total capacity of " +
                format_size(static_cast<Bytes>(device_.total_mib) * MiB) + " of which " + format_size(oom.free) +
                " is free. Of the allocated memory " + format_size(oom.counters.allocated) + " is allocated by PyTorch, and " +
                format_size(oom.counters.reserved - oom.counters.allocated) + " is reserved by PyTorch but unallocated.";
  trace_.oom = std::move(oom);
}

/// What the event-by-event part is compiled for: nobody watching, an observer, or a machine that computes.
template <bool kWatched>
bool Replay::run_events(std::size_t begin, std::size_t end, const Observer* observer) {
  const Event* const events = program_.events.data();
  for (std::size_t i = begin; i < end; ++i) {
    const Event e = events[i];
    switch (e.kind) {
      case EventKind::alloc: {
        const auto block = allocator_.allocate(program_.storages[e.index].bytes, program_.storages[e.index].stream);
        if (!block) {
          fail(e.index);
          return false;
        }
        blocks_[e.index] = *block;
        if (allocator_.allocated() > step_peak_) {
          step_peak_ = allocator_.allocated();
          step_peak_at_ = {step_, phase_, layer_, program_.storages[e.index].op, event_, program_.storages[e.index].bytes};
        }
        break;
      }
      case EventKind::free:
        if constexpr (kWatched) {
          if (machine_) machine_->freeing(address(e.index), program_.storages[e.index].bytes);
        }
        allocator_.free(blocks_[e.index]);
        blocks_[e.index] = no_block;
        break;
      case EventKind::op:
        if constexpr (kWatched) {
          if (machine_) machine_->op(program_.ops[e.index]);
        }
        continue;
      case EventKind::reading:
        read(static_cast<Reading>(e.index));
        if constexpr (kWatched) {
          if (machine_) machine_->reading(static_cast<Reading>(e.index));
        }
        continue;
      case EventKind::phase:
        phase_ = static_cast<Phase>(e.index);
        continue;
      case EventKind::layer:
        layer_ = static_cast<std::int16_t>(e.index);
        if constexpr (kWatched) {
          if (machine_) machine_->layer(layer_);
        }
        continue;
    }
    if constexpr (kWatched) {
      if (observer &&
          !(*observer)(
              {e.kind == EventKind::alloc, e.index, step_, phase_, layer_, event_, {allocator_.allocated(), allocator_.reserved()}}))
        return false;
    }
    ++event_;
  }
  return true;
}

bool Replay::settled(int step) {
  std::vector<std::uint64_t> state;
  allocator_.append_state(state);
  // What the next step will free by name must also be where it was.
  for (const Program::Carry& carry : program_.carries)
    state.push_back(blocks_[carry.from] == no_block ? 0 : allocator_.address(blocks_[carry.from]));
  // A state before a step of another kind says nothing of the repeated one.
  if (!program_.repeats(step + 1)) state.clear();
  for (std::size_t i = 0; i < states_.size(); ++i) {
    if (states_[i] == state) {
      trace_.settled = Settled{static_cast<int>(i) + 1, step - static_cast<int>(i) - 1};
      return true;
    }
  }
  states_.push_back(std::move(state));
  return false;
}

bool Trace::goes_on(int most, Bytes free) const {
  if (oom) return false;
  if (settled) return true;
  if (static_cast<int>(steps.size()) < most) return false;
  const std::size_t half = steps.size() / 2;
  Bytes early = 0;
  Bytes highest = 0;
  int rises = 0;  // in the later half
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (i >= half && steps[i].retries > 0) return false;
    const Bytes reserved = steps[i].peak->reserved;
    if (reserved <= highest) continue;
    highest = reserved;
    if (i < half) early = reserved;
    if (i >= half) ++rises;
  }
  // One segment that was missing until now is no pace; there may be another.
  const Bytes growth = highest - early;
  const Bytes more = rises < 2 ? growth : growth * 2000 / static_cast<Bytes>(most);
  return highest <= free && more <= free - highest;
}

bool Replay::part(std::size_t begin, std::size_t end, const Observer* observer) {
  const bool done = observer || machine_ ? run_events<true>(begin, end, observer) : run_events<false>(begin, end, nullptr);
  if (trace_.oom) count_failure();
  return done;
}

/// The highest counters of a run include those of the step it failed in.
void Replay::count_failure() {
  if (trace_.oom->peak.allocated > trace_.peak.allocated) {
    trace_.peak.allocated = trace_.oom->peak.allocated;
    trace_.peak_at = step_peak_at_;
  }
  if (trace_.oom->peak.reserved > trace_.peak.reserved) trace_.peak.reserved = trace_.oom->peak.reserved;
}

bool Replay::setup(const Observer* observer) {
  const bool done = part(0, program_.setup_end, observer);
  trace_.retries = allocator_.retries();
  return done;
}

bool Replay::step(const Observer* observer) {
  ++step_;
  trace_.steps.emplace_back();
  now_ = &trace_.steps.back();
  allocator_.reset_peaks();
  step_peak_ = allocator_.allocated();
  step_peak_at_ = {step_, phase_, layer_, OpKind::none, event_, 0};
  const bool regular = program_.repeats(step_);
  const std::uint64_t retries = allocator_.retries();
  const std::size_t begin = step_ == 1 ? program_.setup_end : regular ? program_.repeat_begin : program_.first_end;
  const std::size_t end = step_ == 1 ? program_.first_end : regular ? program_.events.size() : program_.repeat_begin;
  const bool done = part(begin, end, observer);
  trace_.retries = allocator_.retries();
  now_->retries = trace_.retries - retries;
  if (!done) return false;
  if (regular) {
    for (const Program::Carry& carry : program_.carries) std::swap(blocks_[carry.from], blocks_[carry.to]);
  }
  const Counters peak = *now_->peak;
  if (peak.allocated > trace_.peak.allocated) {
    trace_.peak.allocated = peak.allocated;
    trace_.peak_at = step_peak_at_;
  }
  if (peak.reserved > trace_.peak.reserved) trace_.peak.reserved = peak.reserved;
  return true;
}

Trace Replay::run(const ReplayOptions& options, const Observer* observer) {
  trace_.steps.reserve(static_cast<std::size_t>(options.steps));
  bool going = setup(observer);
  while (going && step_ < options.steps) {
    going = step(observer);
    if (going && !trace_.settled && settled(step_) && options.until_settled) break;
  }
  return std::move(trace_);
}

Trace replay(const Program& program, const Config& config, const ReplayOptions& options) {
  return Replay(program, config.device, config.allocator).run(options);
}

std::string trace_hash(const Program& program, const Config& config, int steps) {
  Sha256 hash;
  Replay run(program, config.device, config.allocator);
  const Replay::Observer observer = [&](const ReplayEvent& e) {
    hash.add(e.alloc ? 'a' : 'f');
    hash.number(e.storage);
    hash.number(e.counters.allocated);
    hash.number(e.counters.reserved);
    return true;
  };
  run.run({.steps = steps}, &observer);
  return hash.hex().substr(0, 16);
}

}  // namespace whatfits
