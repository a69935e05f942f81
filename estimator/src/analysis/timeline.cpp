#include "analysis/replay.h"
#include "whatfits/estimate.h"
#include "whatfits/picture.h"

namespace whatfits {

Timeline timeline(const Config& config, int step) { return timeline(record(config), config, step); }

Timeline timeline(const Program& program, const Config& config, int step) {
  const int last = static_cast<int>(config.steps);
  if (step < 0 || step > last) step = last;
  // A run that fails earlier is shown where it fails.
  const Trace whole = replay(program, config, {.steps = step > 0 ? step : 1});
  if (whole.oom && whole.oom->at.step < step) step = whole.oom->at.step;

  Timeline line;
  line.step = step;
  line.labels = program.labels;
  if (whole.oom && whole.oom->at.step == step) line.oom = whole.oom;
  std::array<Bytes, kCategories> categories{};
  Bytes requested = 0;
  const Replay::Observer observer = [&](const ReplayEvent& e) {
    if (e.step > step) return false;
    const StorageInfo& storage = program.storages[e.storage];
    Bytes& category = categories[static_cast<std::size_t>(storage.category)];
    category += e.alloc ? storage.bytes : Bytes{0} - storage.bytes;
    requested += e.alloc ? storage.bytes : Bytes{0} - storage.bytes;
    if (e.step != step) return true;
    TimelineRow row;
    row.event = e.event;
    row.alloc = e.alloc;
    row.bytes = storage.bytes;
    row.phase = e.phase;
    row.layer = e.layer;
    row.op = storage.op;
    row.label = storage.label;
    row.counters = e.counters;
    row.categories = categories;
    row.categories[static_cast<std::size_t>(Category::rounding)] = e.counters.allocated - requested;
    line.rows.push_back(row);
    return true;
  };
  Replay(program, config.device, config.allocator).run({.steps = step > 0 ? step : 1}, &observer);
  return line;
}

}  // namespace whatfits
