// What must hold of every Program: no tensor is used after its death, none dies twice, and the step that is repeated is the step that
// really comes next.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "analysis/replay.h"
#include "models/training.h"
#include "support/runs.h"
#include "support/spread.h"
#include "whatfits/estimate.h"

namespace whatfits {
namespace {

using testing::NamedConfig;
using testing::RunEvent;

/// One past the last byte that a view reaches, in its storage.
Bytes reach(const Program& program, const TensorInfo& tensor) {
  const auto& [shape, strides, offset, dtype] = program.layouts[tensor.layout];
  std::int64_t last = offset;
  for (int i = 0; i < shape.rank; ++i) {
    if (shape[i].size == 0) return 0;
    last += (shape[i].size - 1) * strides[static_cast<std::size_t>(i)];
  }
  return static_cast<Bytes>(last + 1) * size_of(dtype);
}

TEST_CASE("storages are born once in a step, and every free names a live one", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Program program = record(c.config);
    std::set<std::size_t> freed;
    std::string problem;
    testing::walk(program, 4, [&](const RunEvent& e, const std::vector<std::size_t>&) {
      const bool alloc = e.event.kind == EventKind::alloc;
      if ((!alloc && e.event.kind != EventKind::free) || !problem.empty()) return;
      const std::string what = testing::describe(program, e.event.index) + " in step " + std::to_string(e.step);
      if (!alloc && e.allocation == testing::kNoAllocation) problem = "freed when dead: " + what;
      if (!alloc && !freed.insert(e.allocation).second) problem = "freed twice: " + what;
    });
    CHECK(problem == "");
  }
}

TEST_CASE("a storage that a repeated step makes is not alive when the step makes it", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Program program = record(c.config);
    std::vector<bool> alive(program.storages.size());
    std::string problem;
    for (int pass = 0; pass < 3 && problem.empty(); ++pass) {
      const std::size_t begin = pass == 0 ? 0 : program.repeat_begin;
      for (std::size_t i = begin; i < program.events.size(); ++i) {
        const Event e = program.events[i];
        if (e.kind != EventKind::alloc && e.kind != EventKind::free) continue;
        if (alive[e.index] == (e.kind == EventKind::alloc))
          problem = testing::describe(program, e.index) + ", pass " + std::to_string(pass);
        alive[e.index] = e.kind == EventKind::alloc;
      }
      for (const Program::Carry& carry : program.carries) std::vector<bool>::swap(alive[carry.from], alive[carry.to]);
    }
    CHECK(problem == "");
  }
}

TEST_CASE("every operator's operands are alive when it runs, and within their storage", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Program program = record(c.config);
    std::string problem;
    std::size_t operators = 0;
    testing::walk(program, 4, [&](const RunEvent& e, const std::vector<std::size_t>& names) {
      if (e.event.kind != EventKind::op || !problem.empty()) return;
      ++operators;
      const OpInfo& op = program.ops[e.event.index];
      const std::uint32_t count = std::uint32_t{op.inputs} + op.outputs + op.scratch;
      if (op.first + count > program.operands.size()) {
        problem = "operands beyond the list";
        return;
      }
      for (std::uint32_t i = 0; i < count; ++i) {
        const TensorInfo& tensor = program.tensors[program.operands[op.first + i]];
        const std::string what = std::string(name_of(op.kind)) + ", operand " + std::to_string(i) + " of " + std::to_string(op.inputs) +
                                 "+" + std::to_string(op.outputs) + "+" + std::to_string(op.scratch) + ": " +
                                 testing::describe(program, tensor.storage) + "; step " + std::to_string(e.step) + ", " +
                                 std::string(name_of(e.phase));
        if (names[tensor.storage] == testing::kNoAllocation) problem = "dead: " + what;
        if (reach(program, tensor) > program.storages[tensor.storage].bytes) problem = "beyond its storage: " + what;
      }
    });
    CHECK(problem == "");
    CHECK(operators > 0);
  }
}

TEST_CASE("a storage's own tensor fits it, and every tensor's storage exists", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Program program = record(c.config);
    std::string problem;
    for (StorageId id = 0; id < program.storages.size() && problem.empty(); ++id) {
      const StorageInfo& storage = program.storages[id];
      if (storage.tensor >= program.tensors.size() || program.tensors[storage.tensor].storage != id ||
          storage.label >= program.labels.size() || reach(program, program.tensors[storage.tensor]) != storage.bytes)
        problem = testing::describe(program, id);
    }
    for (const TensorInfo& tensor : program.tensors) {
      if (tensor.storage >= program.storages.size() || tensor.layout >= program.layouts.size()) problem = "a tensor without a storage";
    }
    CHECK(problem == "");
  }
}

/// A run as text, one line an event, storages by the order of their allocation.
std::vector<std::string> script_of(const Program& program, int repeats) {
  std::vector<std::string> lines;
  testing::walk(program, repeats, [&](const RunEvent& e, const std::vector<std::size_t>& names) {
    std::string line = std::to_string(static_cast<int>(e.event.kind)) + " ";
    if (e.event.kind == EventKind::alloc || e.event.kind == EventKind::free) {
      const StorageInfo& storage = program.storages[e.event.index];
      line += std::to_string(e.allocation) + " " + std::to_string(storage.bytes) + " " + std::to_string(storage.layer) + " " +
              std::string(name_of(storage.op)) + " " + std::string(name_of(storage.phase)) + " " + program.labels[storage.label];
      if (e.event.kind == EventKind::alloc) line += " " + std::string(name_of(storage.category));
    } else if (e.event.kind == EventKind::op) {
      const OpInfo& op = program.ops[e.event.index];
      line +=
          std::string(name_of(op.kind)) + " " + std::to_string(op.layer) + " " + std::to_string(op.flags) + " " + std::to_string(op.scalar);
      for (int i = 0; i < op.inputs + op.outputs + op.scratch; ++i) {
        const TensorInfo& tensor = program.tensors[program.operands[op.first + static_cast<std::uint32_t>(i)]];
        const auto& [shape, strides, offset, dtype] = program.layouts[tensor.layout];
        line += " | " + std::to_string(names[tensor.storage]) + " " + std::string(name_of(dtype)) + " " + std::to_string(offset);
        for (int d = 0; d < shape.rank; ++d)
          line += " " + std::to_string(shape[d].size) + ":" + std::to_string(strides[static_cast<std::size_t>(d)]) + ":" +
                  std::to_string(shape[d].letters);
      }
    } else {
      line += std::to_string(e.event.index);
    }
    lines.push_back(std::move(line));
  });
  return lines;
}

TEST_CASE("repeating the second step is what a third and a fourth would have been", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const std::vector<std::string> repeated = script_of(record(c.config), 4);
    // What follows step 1 here is steps 2, 3 and 4 as they came; where step 2 stands for itself, steps 3 and 4 follow it.
    const std::vector<std::string> recorded = script_of(record_steps(c.config, 4), steps_recorded(c.config));
    const std::size_t n = std::min(repeated.size(), recorded.size());
    std::size_t i = 0;
    while (i < n && repeated[i] == recorded[i]) ++i;
    INFO("event " << i << "\n repeated " << (i < repeated.size() ? repeated[i] : "nothing") << "\n recorded "
                  << (i < recorded.size() ? recorded[i] : "nothing"));
    CHECK(i == std::max(repeated.size(), recorded.size()));
  }
}

TEST_CASE("what a step takes over from the one before pairs up", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Program program = record(c.config);
    std::map<StorageId, int> born;  // 0 setup, 1 first, 2 second
    std::set<StorageId> freed_in_second;
    for (std::size_t i = 0; i < program.events.size(); ++i) {
      const Event e = program.events[i];
      const int part = i < program.setup_end ? 0 : i < program.repeat_begin ? 1 : 2;
      if (e.kind == EventKind::alloc) born[e.index] = part;
      if (e.kind == EventKind::free && part == 2) freed_in_second.insert(e.index);
    }
    std::set<StorageId> from;
    std::set<StorageId> to;
    std::string problem;
    for (const Program::Carry& carry : program.carries) {
      const StorageInfo& a = program.storages[carry.from];
      const StorageInfo& b = program.storages[carry.to];
      if (born[carry.from] != 1 || !freed_in_second.contains(carry.from)) problem = "from: " + testing::describe(program, carry.from);
      if (born[carry.to] != 2 || freed_in_second.contains(carry.to)) problem = "to: " + testing::describe(program, carry.to);
      if (a.bytes != b.bytes || a.op != b.op || a.layer != b.layer || program.labels[a.label] != program.labels[b.label])
        problem = testing::describe(program, carry.from) + " is not " + testing::describe(program, carry.to);
      if (!from.insert(carry.from).second || !to.insert(carry.to).second) problem = "named twice";
    }
    CHECK(problem == "");
    // Nothing is left out: what one step leaves the next, and only that, is in the list.
    for (const auto& [storage, part] : born) {
      if (part == 1 && freed_in_second.contains(storage) && !from.contains(storage)) problem = testing::describe(program, storage);
      if (part == 2 && !freed_in_second.contains(storage) && !to.contains(storage)) problem = testing::describe(program, storage);
    }
    CHECK(problem == "");
  }
}

TEST_CASE("a program's hash says whether two programs are the same", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const std::string hash = program_hash(record(c.config));
    CHECK(hash.size() == 16);
    CHECK(hash == program_hash(record(c.config)));
    Config elsewhere = c.config;
    elsewhere.device.free_mib = elsewhere.device.free_mib / 2 + 1;
    elsewhere.device.total_mib += 1000;
    elsewhere.device.name = "another card";
    elsewhere.device.preset.clear();
    elsewhere.steps += 1;
    elsewhere.allocator.expandable_segments = !elsewhere.allocator.expandable_segments;
    CHECK(program_hash(record(elsewhere)) == hash);
  }
}

TEST_CASE("different requests are different programs, but where sdpa is a backend that has a name too", "[invariants]") {
  std::map<std::string, std::vector<Config>> by_hash;
  for (const NamedConfig& c : testing::combinations()) by_hash[program_hash(record(c.config))].push_back(c.config);
  for (auto& [hash, configs] : by_hash) {
    if (configs.size() == 1) continue;
    INFO(hash << ", " << configs.size() << " requests");
    REQUIRE(configs.size() == 2);
    CHECK((configs[0].attention == Attention::sdpa) != (configs[1].attention == Attention::sdpa));
    configs[0].attention = configs[1].attention;
    CHECK(configs[0] == configs[1]);
  }
}

}  // namespace
}  // namespace whatfits
