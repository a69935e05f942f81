#include <utility>

#include "analysis/replay.h"
#include "whatfits/picture.h"

namespace whatfits {

Pool pool_at(const Program& program, const Config& config, std::uint64_t event) {
  Replay run(program, config.device, config.allocator);
  Pool pool;
  const Replay::Observer observer = [&](const ReplayEvent& e) {
    const StorageInfo& storage = program.storages[e.storage];
    pool.at = {e.step, e.phase, e.layer, storage.op, e.event, e.alloc ? storage.bytes : 0};
    pool.counters = e.counters;
    return e.event < event;
  };
  Trace trace = run.run({.steps = static_cast<int>(config.steps)}, &observer);
  if (trace.oom) {
    pool.at = trace.oom->at;
    pool.counters = trace.oom->counters;
    pool.oom = std::move(trace.oom);
  }

  std::vector<StorageId> owners;  // by block
  for (StorageId storage = 0; storage < run.blocks().size(); ++storage) {
    const BlockId block = run.blocks()[storage];
    if (block == no_block) continue;
    if (block >= owners.size()) owners.resize(block + 1);
    owners[block] = storage;
  }

  for (const SegmentView& segment : run.allocator().segments()) {
    PoolSegment out{segment.address, segment.size, segment.small, {}};
    out.blocks.reserve(segment.blocks.size());
    for (const BlockView& view : segment.blocks) {
      PoolBlock block;
      block.address = view.address;
      block.size = view.size;
      block.allocated = view.allocated;
      if (view.allocated) {
        const StorageInfo& storage = program.storages[owners[view.id]];
        block.requested = storage.bytes;
        block.category = storage.category;
        block.label = program.labels[storage.label];
        if (block.label.empty()) block.label = name_of(storage.op);
        block.layer = storage.layer;
        block.op = storage.op;
      }
      out.blocks.push_back(std::move(block));
    }
    pool.segments.push_back(std::move(out));
  }
  return pool;
}

}  // namespace whatfits
