#include "predicted.h"

#include <algorithm>
#include <utility>

#include "analysis/replay.h"

namespace whatfits::snapshot {

PredictedRun predict(const Program& program, const Config& config, int steps) {
  PredictedRun run;
  std::vector<std::size_t> at(program.storages.size(), kNever);  // by storage: its latest allocation
  Bytes allocated = 0;
  const Replay::Observer observer = [&](const ReplayEvent& e) {
    if (e.alloc) {
      at[e.storage] = run.allocations.size();
      run.allocations.push_back(
          {.storage = e.storage, .step = e.step, .block = e.counters.allocated - allocated, .allocated = e.counters.allocated});
    } else if (at[e.storage] != kNever) {
      run.allocations[at[e.storage]].freed = run.allocations.size();
      run.allocations[at[e.storage]].freed_step = e.step;
      at[e.storage] = kNever;
    }
    allocated = e.counters.allocated;
    run.peak.allocated = std::max(run.peak.allocated, allocated);
    run.peak.reserved = std::max(run.peak.reserved, e.counters.reserved);
    if (!run.allocations.empty()) run.allocations.back().allocated_later = allocated;
    return true;
  };
  Replay replay(program, config.device, config.allocator);
  bool going = replay.setup(&observer);
  run.step_ends.push_back(run.allocations.size());
  for (int step = 1; step <= steps && going; ++step) {
    going = replay.step(&observer);
    if (program.repeats(step)) {
      for (const Program::Carry& carry : program.carries) std::swap(at[carry.from], at[carry.to]);
    }
    run.step_ends.push_back(run.allocations.size());
  }
  return run;
}

PredictedPoints predict_points(const Program& program, const Config& config, int steps) {
  PredictedPoints out;
  const Replay::Observer observer = [&](const ReplayEvent& e) {
    if (e.alloc) out.made_at.push_back(out.points.size());
    out.points.push_back(e.counters);
    return true;
  };
  Replay replay(program, config.device, config.allocator);
  bool going = replay.setup(&observer);
  for (int step = 1; step <= steps && going; ++step) going = replay.step(&observer);
  return out;
}

}  // namespace whatfits::snapshot
