// The caching allocator alone: the events of a three-step GPT-2 run on a fresh card, over and over.
#include <benchmark/benchmark.h>

#include <cstddef>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/virtual_source.h"
#include "support/trace_file.h"

namespace whatfits {
namespace {

using testing::TraceAction;

void replay_trace(benchmark::State& state, const char* name) {
  const testing::TraceFile trace = testing::read_trace(std::string(WHATFITS_FIXTURES "/torch/traces/gpt2-from-scratch/") + name + ".txt");
  std::vector<testing::TraceEvent> events;
  for (const testing::TraceEvent& event : trace.events) {
    if (event.action == TraceAction::allocate || event.action == TraceAction::free) events.push_back(event);
  }
  std::vector<CachingAllocator::BlockId> blocks(events.size());
  for (auto _ : state) {
    VirtualSource source(trace.device_free());
    CachingAllocator allocator(source, {.expandable_segments = trace.expandable_segments()}, trace.device_total());
    std::size_t allocations = 0;
    for (const testing::TraceEvent& event : events) {
      if (event.action == TraceAction::allocate) {
        blocks[allocations++] = *allocator.allocate(event.bytes);
      } else {
        allocator.free(blocks[event.index]);
      }
    }
    benchmark::DoNotOptimize(allocator.peak_reserved());
  }
  // Seconds per event: 25n is 25 ns.
  state.counters["per_event"] =
      benchmark::Counter(static_cast<double>(events.size()), benchmark::Counter::kIsIterationInvariantRate | benchmark::Counter::kInvert);
}

BENCHMARK_CAPTURE(replay_trace, b8, "b8");
BENCHMARK_CAPTURE(replay_trace, b8_expandable, "b8-expandable");

}  // namespace
}  // namespace whatfits
