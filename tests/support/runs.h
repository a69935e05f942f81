// Requests of fixtures and tests, and a Program written out step by step.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <utility>
#include <vector>

#include "whatfits/config.h"
#include "whatfits/program.h"

namespace whatfits::testing {

/// The Config of a request that must be valid: throws std::runtime_error with every problem if it is not.
Config config_of(const std::string& request);
Config config_of(const nlohmann::json& request);

/// Lines of a file of JSON records (fixtures/torch/*.jsonl), parsed.
std::vector<nlohmann::json> read_json_lines(const std::string& path);
nlohmann::json read_json(const std::string& path);

inline constexpr std::size_t kNoAllocation = std::numeric_limits<std::size_t>::max();

/// Something that happens in a run of several steps.
struct RunEvent {
  Event event;
  std::size_t allocation =
      kNoAllocation;  ///< of alloc and free: which allocation of the run, from 0; none if the free names a dead storage
  int step = 0;       ///< 0 in the setup
  Phase phase = Phase::warmup;
  std::int16_t layer = kNoLayer;
};

/// Walks setup, step 1, and the repeated step as often as asked, as Replay does, without an allocator. After each event
/// `visit(const RunEvent&, names)` is called; names[storage] is the allocation that a storage stands for, or kNoAllocation when dead.
template <class Visit>
void walk(const Program& program, int steps, Visit&& visit) {
  std::vector<std::size_t> names(program.storages.size(), kNoAllocation);
  std::size_t allocations = 0;
  RunEvent now;
  const auto part = [&](std::size_t begin, std::size_t end) {
    for (std::size_t i = begin; i < end; ++i) {
      now.event = program.events[i];
      now.allocation = kNoAllocation;
      const std::uint32_t index = now.event.index;
      if (now.event.kind == EventKind::phase) now.phase = static_cast<Phase>(index);
      if (now.event.kind == EventKind::layer) now.layer = static_cast<std::int16_t>(index);
      if (now.event.kind == EventKind::alloc) now.allocation = names[index] = allocations++;
      if (now.event.kind == EventKind::free) now.allocation = std::exchange(names[index], kNoAllocation);
      visit(std::as_const(now), std::as_const(names));
    }
  };
  part(0, program.setup_end);
  for (now.step = 1; now.step <= steps; ++now.step) {
    if (now.step == 1) {
      part(program.setup_end, program.first_end);
      continue;
    }
    if (!program.repeats(now.step)) {
      part(program.first_end, program.repeat_begin);
      continue;
    }
    part(program.repeat_begin, program.events.size());
    for (const Program::Carry& carry : program.carries) std::swap(names[carry.from], names[carry.to]);
  }
}

/// A storage in words: "25165824 bytes, softmax 'attention probabilities', forward, layer 3".
std::string describe(const Program& program, StorageId storage);

}  // namespace whatfits::testing
