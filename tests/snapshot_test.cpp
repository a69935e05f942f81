// Snapshots of real PyTorch (fixtures/torch/snapshots: runs of a two-layer model, clean, with a planted fault, and with settings of the
// allocator), ours, and hostile ones.
#include "whatfits/snapshot.h"

#include <zlib.h>

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "support/runs.h"
#include "support/spread.h"
#include "whatfits/compare.h"
#include "whatfits/estimate.h"
#include "whatfits/moment.h"
#include "whatfits/request.h"
#include "whatfits/snapshot_writer.h"

namespace whatfits::snapshot {
namespace {

const std::string kFolder = WHATFITS_FIXTURES "/torch/snapshots/";

std::string unzipped(const std::string& path) {
  const gzFile file = gzopen(path.c_str(), "rb");
  REQUIRE(file != nullptr);
  std::string text;
  std::vector<char> piece(1 << 16);
  for (int got = 0; (got = gzread(file, piece.data(), static_cast<unsigned>(piece.size()))) > 0;)
    text.append(piece.data(), static_cast<std::size_t>(got));
  gzclose(file);
  return text;
}

struct Outcome {
  std::optional<Snapshot> snapshot;
  ReadError error;
};

Outcome read(const std::string& bytes, std::size_t piece = std::size_t{1} << 20, ReadLimits limits = {}) {
  SnapshotReader reader(limits);
  for (std::size_t at = 0; at < bytes.size(); at += piece) {
    if (!reader.feed(bytes.data() + at, std::min(piece, bytes.size() - at))) break;
  }
  Outcome outcome{reader.finish(), {}};
  if (!outcome.snapshot) outcome.error = *reader.error();
  return outcome;
}

Snapshot measured(const std::string& name) {
  Outcome outcome = read(unzipped(kFolder + name + ".pickle.gz"));
  INFO(name << ": byte " << outcome.error.offset << ": " << outcome.error.message);
  REQUIRE(outcome.snapshot);
  return std::move(*outcome.snapshot);
}

std::vector<std::string> names() {
  std::vector<std::string> list;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename().string();
    if (name.size() > 10 && name.substr(name.size() - 10) == ".pickle.gz") list.push_back(name.substr(0, name.size() - 10));
  }
  std::sort(list.begin(), list.end());
  return list;
}

Config request() {
  const ParsedRequest parsed = parse_request(testing::read_json(kFolder + "request.json"));
  REQUIRE(parsed.problems.empty());
  return parsed.config;
}

Comparison compared(const std::string& name) {
  const Snapshot snapshot = measured(name);
  const auto comparison = compare(snapshot, follow(snapshot, 0), 0, request());
  REQUIRE(comparison);
  return *comparison;
}

/// The causes that are not about how the pool happened to be cut.
std::vector<Cause> stories(const Comparison& comparison) {
  std::vector<Cause> list;
  for (const Cause& cause : comparison.causes) {
    if (cause.kind != Cause::Kind::rounding) list.push_back(cause);
  }
  return list;
}

/// Sums of blocks at the recording's end; of the request's tensors, as the allocator rounds them.
constexpr std::int64_t kLogits = 132'120'576;    // 8 x 512 x 8000 floats take a whole segment of 126 MiB
constexpr std::int64_t kGradients = 15'036'416;  // 28 parameters of 3,757,056 elements, in blocks of 512 bytes
constexpr std::int64_t kInputs = 8 * 512 * 8;    // int64 token ids

TEST_CASE("every recorded snapshot opens, and its events lead to its segments", "[snapshot]") {
  CHECK(names().size() == 15);
  for (const std::string& name : names()) {
    INFO(name);
    const Snapshot snapshot = measured(name);
    REQUIRE(snapshot.traces.size() == 1);
    const MeasuredRun run = follow(snapshot, 0);
    CHECK(run.strange == 0);
    Bytes allocated = 0;
    Bytes reserved = 0;
    for (const SnapshotSegment& segment : snapshot.segments) {
      reserved += segment.size;
      for (const SnapshotBlock& block : segment.blocks) {
        if (block.state == SnapshotBlock::State::active_allocated) allocated += block.size;
      }
    }
    CHECK(run.points.back().allocated == allocated);
    CHECK(run.points.back().reserved == reserved);
  }
}

TEST_CASE("pieces of any size read the same", "[snapshot]") {
  const std::string bytes = unzipped(kFolder + "oom.pickle.gz");
  const Snapshot whole = *read(bytes).snapshot;
  for (const std::size_t piece : {1, 2, 3, 7, 4096}) {
    const Snapshot cut = *read(bytes, piece).snapshot;
    CHECK(cut.strings == whole.strings);
    CHECK(cut.stacks == whole.stacks);
    REQUIRE(cut.traces[0].size() == whole.traces[0].size());
    for (std::size_t i = 0; i < whole.traces[0].size(); ++i) {
      CHECK(cut.traces[0][i].address == whole.traces[0][i].address);
      CHECK(cut.traces[0][i].stack == whole.traces[0][i].stack);
    }
  }
}

TEST_CASE("a part of the events can be read, and what was alive before it is known", "[snapshot]") {
  const std::string bytes = unzipped(kFolder + "clean.pickle.gz");
  const Snapshot whole = *read(bytes).snapshot;
  const MeasuredRun run = follow(whole, 0);
  ReadLimits limits;
  limits.first_event = 1200;
  const Snapshot part = *read(bytes, 1 << 16, limits).snapshot;
  CHECK(part.events_seen[0] == whole.traces[0].size());
  REQUIRE(part.traces[0].size() == whole.traces[0].size() - 1200);
  const MeasuredRun later = follow(part, 0);
  CHECK(later.points.back().allocated == run.points.back().allocated);
  CHECK(later.points.back().reserved == run.points.back().reserved);
}

TEST_CASE("counters of a part of the events are those of the whole", "[snapshot]") {
  for (const std::string name : {"clean", "oom", "kept-logits", "two-optimizers"}) {
    const std::string bytes = unzipped(kFolder + name + ".pickle.gz");
    const Snapshot whole = *read(bytes).snapshot;
    const MeasuredRun run = follow(whole, 0);
    const std::size_t events = run.points.size();
    for (const auto& [first, last] : {std::pair{events / 4, events / 2}, {events / 2, events / 2 + 40}, {std::size_t{0}, events / 3}}) {
      INFO(name << " " << first << " to " << last);
      ReadLimits limits;
      limits.first_event = first;
      limits.last_event = last;
      const MeasuredRun part = follow(*read(bytes, 1 << 16, limits).snapshot, 0);
      REQUIRE(part.points.size() == last - first + 1);
      std::size_t apart = 0;
      for (std::size_t i = 0; i < part.points.size(); ++i) {
        const MeasuredPoint& own = run.points[first + i];
        apart += part.points[i].allocated != own.allocated || part.points[i].reserved != own.reserved ? 1 : 0;
      }
      CHECK(apart == 0);
      CHECK(part.strange <= 1);  // it may begin between a free and its completion
    }
  }
}

TEST_CASE("a clean run is as predicted, tensor for tensor", "[snapshot]") {
  const Comparison clean = compared("clean");
  CHECK(clean.steps == 4);
  CHECK(clean.matched == clean.measured_allocations);
  CHECK(clean.matched == clean.predicted_allocations);
  CHECK(clean.measured_peak == clean.predicted_peak);
  CHECK(clean.causes.empty());
  CHECK(clean.order == 0);
  CHECK_FALSE(differs(clean, 0));
  // Laid beside each other they meet at every allocation. (A segment is an event of its own in a recording, ahead of the allocation that
  // it is taken for; and names that die together when a function returns may do so in either order.)
  const Snapshot snapshot = measured("clean");
  const MeasuredRun run = follow(snapshot, 0);
  REQUIRE(clean.beside.size() == run.points.size());
  std::size_t apart = 0;
  for (std::size_t i = 0; i < run.points.size(); ++i) {
    if (snapshot.traces[0][i].action != Action::alloc) continue;
    apart += clean.beside[i].allocated != run.points[i].allocated || clean.beside[i].reserved != run.points[i].reserved ? 1 : 0;
  }
  CHECK(apart == 0);
}

TEST_CASE("sizes are rounded as the recorded run's allocator was told to", "[snapshot]") {
  // max_memory_allocated() and max_memory_reserved(), printed by tests/oracle/plant_faults.py when it wrote the two.
  const auto counters = [](const std::string& name) {
    const MeasuredRun run = follow(measured(name), 0);
    MeasuredPoint highest;
    for (const MeasuredPoint& point : run.points) {
      highest.allocated = std::max(highest.allocated, point.allocated);
      highest.reserved = std::max(highest.reserved, point.reserved);
    }
    return std::pair(highest.allocated, highest.reserved);
  };
  CHECK(counters("rounded-sizes") == std::pair(Bytes{816'079'872}, Bytes{987'758'592}));
  CHECK(counters("rounded-by-size") == std::pair(Bytes{799'564'800}, Bytes{855'638'016}));

  Config config = request();
  config.allocator.max_split_size_mib = 21;
  config.allocator.roundup_power2_divisions = 4;
  const Snapshot snapshot = measured("rounded-sizes");
  const auto comparison = compare(snapshot, follow(snapshot, 0), 0, config);
  REQUIRE(comparison);
  CHECK(comparison->matched == comparison->measured_allocations);
  CHECK(comparison->causes.empty());
  CHECK(comparison->difference == 0);
}

TEST_CASE("what is held at a moment sums to the counters", "[snapshot]") {
  for (const std::string name : {"kept-logits", "oom"}) {
    const Snapshot snapshot = measured(name);
    PoolHistory pools;
    const MeasuredRun run = follow(snapshot, 0, &pools);
    std::vector<std::size_t> events{run.peak, run.points.size() - 1};
    for (std::size_t event = 0; event < run.points.size(); event += 41) events.push_back(event);
    for (const std::size_t event : events) {
      INFO(name << " " << event);
      const Json moment = moment_json(snapshot, run, 0, event, pools.at(snapshot.traces[0], event));
      Bytes held = 0;
      for (const Json& holder : moment["holders"]) held += holder["bytes"].get<Bytes>();
      CHECK(held == run.points[event].allocated);
      Bytes reserved = 0;
      Bytes used = 0;
      for (const Json& segment : moment["segments"]) {
        reserved += segment["size"].get<Bytes>();
        for (const Json& block : segment["blocks"]) used += block["state"] == "allocated" ? block["size"].get<Bytes>() : 0;
      }
      CHECK(reserved == run.points[event].reserved);
      CHECK(used == run.points[event].allocated);
    }
  }
}

TEST_CASE("planted faults are named, with their bytes", "[snapshot]") {
  struct Fault {
    const char* name;
    Cause::Kind kind;
    const char* word;  ///< of its title
    std::int64_t at_end;
    std::size_t stories;
  };
  const std::int64_t forward = 4 * 342'610'944;  // what one forward pass leaves for backward, by the predicted run
  for (const Fault& fault : std::vector<Fault>{
           {"kept-logits", Cause::Kind::kept, "logits", 4 * kLogits, 1},
           {"view-of-logits", Cause::Kind::kept, "logits", 4 * kLogits, 1},
           {"grads-kept", Cause::Kind::kept, "gradients", kGradients, 1},
           {"two-optimizers", Cause::Kind::optimizer_copy, "second optimizer", 2 * kGradients, 1},
           {"model-copy", Cause::Kind::model_copy, "second copy", 17'133'568, 1},
           {"kept-batches", Cause::Kind::kept, "batches", 4 * kInputs, 1},
           {"kept-loss", Cause::Kind::kept, "loss", 4 * 512, 1},
           {"kept-activations", Cause::Kind::kept, "residual stream", 4 * 8 * 512 * 256 * 4, 1},
           {"eval-with-graph", Cause::Kind::forward_pass, "graph stays", forward, 2},
           {"retained-graph", Cause::Kind::kept, "graph of a step", 1'370'572'800, 3},
           {"larger-last-batch", Cause::Kind::extra, "3 times", 0, 1},
       }) {
    INFO(fault.name);
    const Comparison found = compared(fault.name);
    CHECK(found.unexplained == 0);
    const std::vector<Cause> list = stories(found);
    REQUIRE(list.size() == fault.stories);
    CHECK(list[0].kind == fault.kind);
    INFO(list[0].title);
    CHECK(list[0].title.find(fault.word) != std::string::npos);
    CHECK(list[0].at_end == fault.at_end);
    CHECK_FALSE(list[0].advice.empty());
  }
}

TEST_CASE("running out of memory is explained", "[snapshot]") {
  const Snapshot snapshot = measured("oom");
  const MeasuredRun run = follow(snapshot, 0);
  REQUIRE(run.failures.size() == 1);
  const Failure& failure = run.failures[0];
  CHECK(failure.asked == Bytes{320} * 4 * 512 * 512 * 4);  // attention probabilities of a batch of 320
  CHECK(failure.bound_by == "allocated");
  CHECK(failure.pieces.size() == 3);
  CHECK(run.retries.size() == 1);
  const auto comparison = compare(snapshot, run, 0, request());
  REQUIRE(comparison);
  CHECK(stories(*comparison).front().title == "a step whose batch is 40 times the request's");
}

TEST_CASE("what is written as a snapshot is read back as it was predicted", "[snapshot]") {
  for (const testing::NamedConfig& c : testing::spread()) {
    INFO(c.name);
    Config config = c.config;
    config.steps = 3;
    config.allocator.roundup_power2_divisions = config.batch % 2 == 0 ? 8 : 0;  // the file says it, or the sizes would not add up
    std::string file;
    write_snapshot(config, [&](std::string_view piece) { file += piece; });
    Outcome outcome = read(file);
    INFO(outcome.error.offset << " " << outcome.error.message);
    REQUIRE(outcome.snapshot);
    const MeasuredRun run = follow(*outcome.snapshot, 0);
    CHECK(run.strange == 0);
    const Trace trace = estimate(config).trace;
    Bytes allocated = 0;
    Bytes reserved = 0;
    for (std::size_t i = 0; i < run.points.size(); ++i) {
      const auto& stack = outcome.snapshot->stacks[outcome.snapshot->traces[0][i].stack];
      if (stack.empty() || stack.back().line == 0) continue;  // the report's peak is that of the steps
      allocated = std::max(allocated, run.points[i].allocated);
      reserved = std::max(reserved, run.points[i].reserved);
    }
    CHECK(reserved == trace.peak.reserved);
    CHECK(allocated == trace.peak.allocated);
    if (!trace.oom) {
      const auto comparison = compare(*outcome.snapshot, run, 0, config);
      REQUIRE(comparison);
      CHECK(stories(*comparison).empty());
      CHECK(comparison->difference == 0);
    } else {
      REQUIRE(run.failures.size() == 1);
    }
  }
}

// The recorded failures of real PyTorch: the replay has their messages to the letter (torch_fixtures_test.cpp); what a reader of the
// snapshot is told must agree with it.
TEST_CASE("recorded failures are explained by what the allocator knew", "[snapshot]") {
  int seen = 0;
  for (const nlohmann::json& row : testing::read_json_lines(WHATFITS_FIXTURES "/torch/gpt2-from-scratch.jsonl")) {
    if (row.at("truth").at("verdict") != "oom") continue;
    INFO(row.at("id").get<std::string>());
    const ParsedRequest parsed = parse_request(row.at("request"));
    REQUIRE(parsed.problems.empty());
    if (parsed.config.allocator.expandable_segments) continue;
    const Trace trace = estimate(parsed.config).trace;
    REQUIRE(trace.oom);
    std::string file;
    write_snapshot(parsed.config, [&](std::string_view piece) { file += piece; });
    const Snapshot snapshot = *read(file).snapshot;
    const MeasuredRun run = follow(snapshot, 0);
    REQUIRE(run.failures.size() == 1);
    const Failure& failure = run.failures[0];
    CHECK(failure.asked == trace.oom->tensor);
    CHECK(failure.segment == trace.oom->segment);
    CHECK(failure.device_free == trace.oom->free);
    CHECK(failure.counters.allocated == trace.oom->counters.allocated);
    CHECK(failure.counters.reserved == trace.oom->counters.reserved);
    CHECK(failure.pieces_total + failure.other_pool == trace.oom->cached_free);
    CHECK((failure.pieces.empty() ? 0 : failure.pieces.front()) == trace.oom->largest_piece);
    const Bytes free = static_cast<Bytes>(parsed.config.device.free_mib) * MiB;
    CHECK(failure.bound_by == (trace.oom->counters.allocated + trace.oom->tensor > free ? "allocated" : "reserved"));
    ++seen;
  }
  CHECK(seen >= 10);
}

// ---- hostile files -----------------------------------------------------------------------------------------------------------------

using namespace std::string_literals;

const std::string kEmpty = "\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](]eu."s;

TEST_CASE("a small snapshot is read, and no part of it", "[snapshot]") {
  REQUIRE(read(kEmpty).snapshot);
  for (std::size_t size = 0; size < kEmpty.size(); ++size) CHECK_FALSE(read(kEmpty.substr(0, size)).snapshot);
  CHECK(read(kEmpty + "x").error.message == "bytes after the end of the pickle");
}

TEST_CASE("opcodes that would run something are refused by name and place", "[snapshot]") {
  const std::vector<std::pair<char, std::string>> refused{
      {'P', "PERSID"},  {'Q', "BINPERSID"},    {'R', "REDUCE"},          {'b', "BUILD"},          {'c', "GLOBAL"},
      {'i', "INST"},    {'o', "OBJ"},          {'\x81', "NEWOBJ"},       {'\x82', "EXT1"},        {'\x83', "EXT2"},
      {'\x84', "EXT4"}, {'\x92', "NEWOBJ_EX"}, {'\x93', "STACK_GLOBAL"}, {'\x97', "NEXT_BUFFER"}, {'\x98', "READONLY_BUFFER"}};
  for (const auto& [opcode, name] : refused) {
    for (const std::string& before : {""s, "}"s, "]("s}) {
      const Outcome outcome = read("\x80\x04"s + before + opcode + "os\nsystem\n."s);
      CHECK_FALSE(outcome.snapshot);
      CHECK(outcome.error.offset == 2 + before.size());
      CHECK(outcome.error.message.rfind(name + " would run code", 0) == 0);
    }
  }
}

TEST_CASE("hostile pickles are refused in words", "[snapshot]") {
  const std::string head = "\x80\x02"s;
  const auto refuses = [](const std::string& bytes, const std::string& words) {
    ReadLimits limits;
    limits.memory = 64 * MiB;
    const Outcome outcome = read(bytes, 4096, limits);
    CHECK_FALSE(outcome.snapshot);
    INFO(outcome.error.message);
    CHECK(outcome.error.message.find(words) != std::string::npos);
  };
  refuses("", "empty or no pickle");
  refuses("hello", "no pickle of protocol 2 to 5");
  refuses("\x80\x01}."s, "protocol 1");
  refuses("\x80\x06}."s, "protocol 6");
  refuses(head + "}.", "not a memory snapshot");
  refuses(head + "N.", "not a memory snapshot");
  refuses(head + ".", "middle of a value");
  refuses(head + "(N.", "middle of a value");
  refuses(head + "NN.", "middle of a value");
  refuses(head + std::string(100000, '('), "nested deeper than 64");
  refuses(head + "X\xff\xff\xff\xff", "a text of 4294967295 bytes");
  refuses(head + "\x8d\xff\xff\xff\xff\xff\xff\xff\x7f"s, "a text of 9223372036854775807 bytes");
  refuses(head + "\x8b\xff\xff\xff\x7f"s, "an integer of 2147483647 bytes");
  refuses(head + "h\x05", "asks for memo 5");
  refuses(head + "j\xff\xff\xff\xff", "asks for memo 4294967295");
  refuses(head + "Nr\xff\xff\xff\xff", "memo 4294967295 after 0");
  refuses(head + "q\0"s, "remembers a value that is not there");
  refuses(head + "(q\0"s, "remembers a value that is not there");
  refuses(head + "e", "closes what was not opened");
  refuses(head + "(e", "fills a container that is not there");
  refuses(head + "N(Ne", "no list");
  refuses(head + "N(NNu", "no dictionary");
  refuses(head + "}(Nu", "no dictionary");
  refuses(head + "a", "appends a value");
  refuses(head + "Na", "appends a value");
  refuses(head + "]s", "sets a value");
  refuses(head + "t", "closes what was not opened");
  refuses(head + "\x86", "a tuple of values that are not there");
  refuses(head + "0", "drops a value");
  refuses(head + "2", "doubles a value");
  refuses(head + "\x80\x02"s, "a second PROTO");
  refuses(head + "\xff", "0xff is no opcode");
  refuses(head + "I123\n.", "no opcode of protocols 2 to 5");
  refuses(head + "(Nd.", "key and no value");
  // A dictionary inside of itself that looks like an event.
  refuses(head + "}q\0(X\x06\0\0\0actionX\x05\0\0\0allocX\x01\0\0\0xh\0u."s, "");
  // A list inside of itself.
  refuses(head + "]q\0(h\0e."s, "not a memory snapshot");
  // A million empty lists: memory, not time, is what it asks for.
  std::string many = head + "](";
  for (int i = 0; i < 10'000'000; ++i) many += ']';
  refuses(many + "e.", "more memory than the 64 MiB");
  // Texts that all differ.
  std::string texts = head + "](";
  for (int i = 0; i < 2'000'000; ++i) texts += "\x8c\x08" + std::to_string(10'000'000 + i);
  refuses(texts + "e.", "more memory than the 64 MiB");
  // The same through the memo.
  std::string memo = head + "](";
  for (int i = 0; i < 10'000'000; ++i) memo += "N\x94"s;
  refuses(memo + "e.", "more memory than the 64 MiB");
}

TEST_CASE("integers of any length are read; what 64 bits cannot hold counts as nothing", "[snapshot]") {
  const auto event = [](const std::string& size) {
    return "\x80\x02}(X\x08\0\0\0segments]X\x0d\0\0\0device_traces](](}(X\x06\0\0\0actionX\x05\0\0\0allocX\x04\0\0\0addrK\x01X\x04\0\0\0size"s +
           size + "ueeu."s;
  };
  const auto size_of = [&](const std::string& size) { return read(event(size)).snapshot->traces.at(0).at(0).size; };
  CHECK(size_of("K\x07"s) == 7);
  CHECK(size_of("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0"s) == ~Bytes{0});
  CHECK(size_of("\x8a\x01\xff"s) == 0);
  CHECK(size_of("\x8a\x0c"s + std::string(11, '\x7f') + "\0"s) == 0);
}

}  // namespace
}  // namespace whatfits::snapshot
