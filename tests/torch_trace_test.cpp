// The recorded Program against event streams of PyTorch 2.6 (fixtures/torch/traces): every allocation with the bytes asked for, every
// free with the allocation it ends, every point at which the script reads its counters, in order; then every address and counter of a
// replay of our own events. Where they part, the first difference is shown with both sides' labels.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/torch_policy.h"
#include "allocator/virtual_source.h"
#include "support/runs.h"
#include "support/trace_file.h"
#include "whatfits/estimate.h"

namespace whatfits {
namespace {

using testing::TraceAction;
using testing::TraceEvent;
using testing::TraceFile;

/// One allocation, free or reading of a run, ours or PyTorch's.
struct Line {
  TraceAction action = TraceAction::mark;
  std::uint64_t number = 0;   ///< bytes asked for; of a free: which allocation, from 0
  std::string mark;           ///< "2:backward"
  std::uint64_t address = 0;  ///< of PyTorch's allocations
  std::string text;           ///< who, for people
  std::uint8_t stream = 0;    ///< of our allocations
  bool cast = false;          ///< of our frees: a weight's copy in autocast's type

  bool same(const Line& other) const { return action == other.action && number == other.number && mark == other.mark; }
};

std::string to_string(const Line& line) {
  switch (line.action) {
    case TraceAction::allocate:
      return "alloc " + std::to_string(line.number) + " (block " + std::to_string(torch_policy::block_size(line.number)) +
             "): " + line.text;
    case TraceAction::free:
      return "free of allocation " + std::to_string(line.number) + ": " + line.text;
    case TraceAction::out_of_memory:
      return "out of memory";
    default:
      return "reading " + line.mark;
  }
}

/// The trace's name for a point at which the script reads counters; empty for those it does not mark.
std::string mark_of(int step, Reading reading) {
  switch (reading) {
    case Reading::after_warmup:
      return "0:warmup";
    case Reading::after_model:
      return "0:model";
    case Reading::after_optimizer:
      return "0:optimizer";
    case Reading::after_forward:
      return std::to_string(step) + ":forward";
    case Reading::after_backward:
      return std::to_string(step) + ":backward";
    case Reading::after_optimizer_step:
      return std::to_string(step) + ":optimizer_step";
    case Reading::after_zero_grad:
      return std::to_string(step) + ":zero_grad";
    case Reading::before:
    case Reading::end_of_step:
      break;
  }
  return {};
}

/// Our run of as many steps as the trace has.
std::vector<Line> lines_of(const Program& program, int steps) {
  std::vector<Line> lines;
  testing::walk(program, steps, [&](const testing::RunEvent& e, const std::vector<std::size_t>&) {
    Line line;
    if (e.event.kind == EventKind::reading) {
      line.mark = mark_of(e.step, static_cast<Reading>(e.event.index));
      if (!line.mark.empty()) lines.push_back(line);
    }
    if (e.event.kind != EventKind::alloc && e.event.kind != EventKind::free) return;
    const bool alloc = e.event.kind == EventKind::alloc;
    const StorageInfo& storage = program.storages[e.event.index];
    line.action = alloc ? TraceAction::allocate : TraceAction::free;
    line.number = alloc ? storage.bytes : e.allocation;
    line.stream = storage.stream;
    line.text = testing::describe(program, e.event.index) + "; now step " + std::to_string(e.step) + ", " + std::string(name_of(e.phase));
    const DType dtype = program.layout_of(storage.tensor).dtype;
    line.cast = !alloc && storage.op == OpKind::copy && storage.phase == Phase::forward && size_of(dtype) == 2;
    lines.push_back(std::move(line));
  });
  return lines;
}

/// PyTorch's run, up to an out-of-memory error: after it the script unwinds, which is no part of the prediction.
std::vector<Line> lines_of(const TraceFile& trace) {
  std::vector<Line> lines;
  std::vector<std::string> labels;
  std::string mark = "start";
  for (const TraceEvent& event : trace.events) {
    Line line;
    line.action = event.action;
    line.address = event.address;
    if (event.action == TraceAction::mark) {
      line.mark = mark = trace.marks[event.index];
    } else if (event.action == TraceAction::allocate) {
      line.number = event.bytes;
      line.text = event.label < 0 ? "no label" : trace.labels[static_cast<std::size_t>(event.label)];
      labels.push_back(line.text);
      line.text += "; after " + mark;
    } else if (event.action == TraceAction::free) {
      line.number = event.index;
      line.text = labels.at(event.index) + "; after " + mark;
    } else if (event.action == TraceAction::out_of_memory) {
      line.number = event.bytes;
      line.address = event.address;  // what was free on the device
      lines.push_back(line);
      break;
    } else {
      continue;  // segments: allocator_trace_test.cpp
    }
    lines.push_back(std::move(line));
  }
  return lines;
}

/// Leaving autocast frees the weights' casts in the order of a hash table keyed by pointers (contextlib's __exit__ in PyTorch's
/// labels), so only which casts go is compared there: the run of frees of casts right before each reading after forward is sorted.
void sort_frees_at_autocast_exit(std::vector<Line>& ours, std::vector<Line>& theirs) {
  const std::size_t n = std::min(ours.size(), theirs.size());
  const auto by_number = [](const Line& a, const Line& b) { return a.number < b.number; };
  for (std::size_t end = 0; end < n; ++end) {
    if (!ours[end].mark.ends_with(":forward")) continue;
    std::size_t begin = end;
    while (begin > 0 && ours[begin - 1].cast && theirs[begin - 1].action == TraceAction::free) --begin;
    const auto from = static_cast<std::ptrdiff_t>(begin);
    const auto to = static_cast<std::ptrdiff_t>(end);
    std::sort(ours.begin() + from, ours.begin() + to, by_number);
    std::sort(theirs.begin() + from, theirs.begin() + to, by_number);
  }
}

/// Where two runs part, or nothing.
std::optional<std::string> first_difference(const std::vector<Line>& ours, const std::vector<Line>& theirs) {
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i < theirs.size() && theirs[i].action == TraceAction::out_of_memory) {
      // Ours goes on: the allocation that PyTorch was refused must be the next one.
      if (i < ours.size() && ours[i].action == TraceAction::allocate && torch_policy::block_size(ours[i].number) == theirs[i].number)
        return {};
    }
    if (i < ours.size() && i < theirs.size() && ours[i].same(theirs[i])) continue;
    std::string text = "event " + std::to_string(i) + " is the first that differs";
    for (std::size_t k = i < 3 ? 0 : i - 3; k < i + 4; ++k) {
      text += k == i ? "\n> " : "\n  ";
      text += std::to_string(k) + "\n    ours:    " + (k < ours.size() ? to_string(ours[k]) : "nothing");
      text += "\n    PyTorch: " + (k < theirs.size() ? to_string(theirs[k]) : "nothing");
    }
    return text;
  }
  return {};
}

/// Replays our events and compares addresses and counters with PyTorch's; the lines are already known to be the same.
class AddressCheck {
 public:
  explicit AddressCheck(const TraceFile& trace)
      : trace_(trace),
        source_(trace.device_free()),
        allocator_(source_, {.expandable_segments = trace.expandable_segments()}, trace.device_total()) {}

  void run(const std::vector<Line>& ours, const std::vector<Line>& theirs) {
    for (std::size_t i = 0; i < theirs.size(); ++i) {
      INFO("event " << i << ": " << to_string(ours[i]));
      if (theirs[i].action == TraceAction::out_of_memory) {
        REQUIRE_FALSE(allocator_.allocate(ours[i].number, ours[i].stream));
        CHECK(allocator_.refusal().available == theirs[i].address);
      } else if (ours[i].action == TraceAction::allocate) {
        const auto block = allocator_.allocate(ours[i].number, ours[i].stream);
        REQUIRE(block);
        blocks_.push_back(*block);
        REQUIRE(relative(allocator_.address(*block), theirs[i]) == theirs[i].address);
      } else if (ours[i].action == TraceAction::free) {
        allocator_.free(blocks_[ours[i].number]);
      } else {
        read(ours[i].mark, i, theirs);
      }
    }
    CHECK(allocator_.retries() == trace_.truth["alloc_retries"]);
  }

 private:
  void read(const std::string& mark, std::size_t at, const std::vector<Line>& theirs) {
    // With gradient accumulation a phase comes several times in a step; the counters are those of the last.
    const auto rest = theirs.begin() + static_cast<std::ptrdiff_t>(at) + 1;
    if (std::any_of(rest, theirs.end(), [&](const Line& line) { return line.mark == mark; })) return;
    const nlohmann::json counters = trace_.counters(mark);
    REQUIRE(counters.is_object());
    CHECK(allocator_.allocated() == counters["allocated"]);
    CHECK(allocator_.reserved() == counters["reserved"]);
  }

  /// Our address in the trace's terms: less one constant, or with expandable segments one for each pool.
  Address relative(Address ours, const Line& theirs) {
    const bool small = torch_policy::is_small(torch_policy::block_size(theirs.number));
    std::optional<Address>& offset = offsets_[trace_.expandable_segments() && small];
    if (!offset) offset = ours - theirs.address;
    return ours - *offset;
  }

  const TraceFile& trace_;
  VirtualSource source_;
  CachingAllocator allocator_;
  std::vector<CachingAllocator::BlockId> blocks_;
  std::map<bool, std::optional<Address>> offsets_;
};

TEST_CASE("the recorded program is PyTorch's event stream, event for event and address for address", "[torch][trace]") {
  std::vector<std::string> paths = testing::trace_paths("gpt2-from-scratch");
  REQUIRE(paths.size() >= 17);
  const std::vector<std::string> parallel = testing::trace_paths("parallel");
  REQUIRE(parallel.size() >= 3);
  paths.insert(paths.end(), parallel.begin(), parallel.end());
  for (const std::string& path : paths) {
    const TraceFile trace = testing::read_trace(path);
    INFO(trace.name << ": " << trace.request.dump());
    const Config config = testing::config_of(trace.request);
    const int steps = static_cast<int>(trace.truth["steps"].size());
    std::vector<Line> ours = lines_of(record(config), steps);
    std::vector<Line> theirs = lines_of(trace);
    // The trace ends with the reading after zero_grad of the last step or with the script's own end; ours with a step's end.
    sort_frees_at_autocast_exit(ours, theirs);
    const std::optional<std::string> difference = first_difference(ours, theirs);
    INFO(difference.value_or(""));
    CHECK_FALSE(difference);
    if (!difference) AddressCheck(trace).run(ours, theirs);
  }
}

TEST_CASE("a difference from a trace is found and shown with both labels", "[torch][trace]") {
  const TraceFile trace = testing::read_trace(WHATFITS_FIXTURES "/torch/traces/gpt2-from-scratch/2l-b8.txt");
  const std::vector<Line> theirs = lines_of(trace);
  Config config = testing::config_of(trace.request);

  config.batch = 9;  // the first thing that depends on it: the token ids of step 1
  const auto batch = first_difference(lines_of(record(config), 3), theirs);
  REQUIRE(batch);
  CHECK(batch->find("randint") != std::string::npos);
  CHECK(batch->find("73728") != std::string::npos);  // 9 * 1024 int64
  CHECK(batch->find("65536") != std::string::npos);

  std::vector<Line> ours = lines_of(record(testing::config_of(trace.request)), 3);
  ours.pop_back();
  CHECK(first_difference(ours, theirs));
}

}  // namespace
}  // namespace whatfits
