#include "whatfits/moment.h"

#include <algorithm>
#include <map>
#include <utility>

#include "analysis/put.h"
#include "whatfits/compare.h"

namespace whatfits::snapshot {

namespace {

Json counters_json(const MeasuredPoint& point) {
  Json out = Json::object();
  put(out, "allocated", point.allocated);
  put(out, "active", point.active);
  put(out, "reserved", point.reserved);
  return out;
}

Json segments_json(const MeasuredPool& pool) {
  Json list = Json::array();
  for (const auto& [address, segment] : pool.segments()) {
    Json blocks = Json::array();
    for (const auto& [begin, block] : segment.blocks) {
      Json item = Json::object();
      put(item, "address", begin);
      put(item, "size", block.size);
      put(item, "state", block.pending ? "pending" : block.allocation != kNever ? "allocated" : "free");
      blocks.push_back(std::move(item));
    }
    Json item = Json::object();
    put(item, "address", address);
    put(item, "size", segment.size);
    put(item, "small", segment.small);
    put(item, "blocks", std::move(blocks));
    list.push_back(std::move(item));
  }
  return list;
}

}  // namespace

std::string place_of(const Snapshot& snapshot, StackId stack) {
  const StackFrame* const frame = snapshot.user_frame(stack);
  if (frame == nullptr) return "unknown place";
  return snapshot.place(*frame) + " in " + std::string(snapshot.text(frame->function));
}

std::vector<Holder> holders(const Snapshot& snapshot, const MeasuredRun& run, std::size_t event) {
  std::map<StackId, Holder> by_stack;
  for (const Allocation& a : run.allocations) {
    if ((a.born != kNever && a.born > event) || (a.freed != kNever && a.freed <= event)) continue;
    Holder& holder = by_stack[a.stack];
    holder.bytes += a.block;
    ++holder.tensors;
  }
  // Many stacks go through one line.
  std::map<std::string, Holder> by_place;
  for (const auto& [stack, one] : by_stack) {
    Holder& holder = by_place[place_of(snapshot, stack)];
    holder.bytes += one.bytes;
    holder.tensors += one.tensors;
  }
  std::vector<Holder> list;
  for (auto& [place, holder] : by_place) list.push_back({place, holder.bytes, holder.tensors});
  std::stable_sort(list.begin(), list.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return list;
}

Pieces count_pieces(const MeasuredPool& pool, bool small) {
  Pieces pieces;
  for (const auto& [address, segment] : pool.segments()) {
    if (segment.small != small) continue;
    ++pieces.segments;
    pieces.reserved += segment.size;
    for (const auto& [at, block] : segment.blocks) {
      if (block.allocation != kNever || block.pending) {
        ++pieces.blocks;
        pieces.used += block.size;
      } else {
        ++pieces.free_pieces;
        pieces.largest_free = std::max(pieces.largest_free, block.size);
      }
    }
  }
  return pieces;
}

Json moment_json(const Snapshot& snapshot, const MeasuredRun& run, std::size_t device, std::size_t event, const MeasuredPool& pool) {
  const TraceEvent& e = snapshot.traces[device][event];
  Json out = Json::object();
  put(out, "events", static_cast<std::uint64_t>(snapshot.traces[device].size()));
  put(out, "events_in_file", snapshot.events_seen[device]);
  put(out, "allocations", static_cast<std::uint64_t>(run.allocations.size()));
  put(out, "at", static_cast<std::uint64_t>(event));
  put(out, "action", name_of(e.action));
  put(out, "size", e.size);
  put(out, "place", place_of(snapshot, e.stack));
  put(out, "counters", counters_json(run.points[event]));
  put(out, "at_end", counters_json(run.points.back()));
  put(out, "retries", static_cast<std::uint64_t>(run.retries.size()));
  Json list = Json::array();
  for (const Holder& holder : holders(snapshot, run, event)) {
    Json item = Json::object();
    put(item, "place", holder.place);
    put(item, "bytes", holder.bytes);
    put(item, "tensors", holder.tensors);
    list.push_back(std::move(item));
  }
  put(out, "holders", std::move(list));
  Json failures = Json::array();
  for (const Failure& failure : run.failures) failures.push_back(to_json(failure));
  put(out, "failures", std::move(failures));
  put(out, "segments", segments_json(pool));
  return out;
}

}  // namespace whatfits::snapshot
