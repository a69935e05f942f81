// What pictures are drawn from: columns that keep the peak, the pool with its tensors, and the searches in steps.
#include "whatfits/picture.h"

#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <numeric>

#include "whatfits/jobs.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace {

using namespace whatfits;

Config config_of(const std::string& rest) {
  const ParsedRequest parsed = parse_request(R"({"model": "gpt2-from-scratch")" + rest + "}");
  REQUIRE(parsed.problems.empty());
  return parsed.config;
}

Config tiny() {
  const ParsedRequest parsed = parse_request(R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 128, "n_head": 4,
    "vocab_size": 1000, "n_positions": 256}, "batch": 4, "device": {"name": "small", "total_mib": 400, "free_mib": 300,
    "compute_capability": "8.6", "sm_count": 84}})");
  REQUIRE(parsed.problems.empty());
  return parsed.config;
}

TEST_CASE("columns keep the peak at every width") {
  const Config config = config_of(R"(, "batch": 20)");
  const Timeline line = timeline(config);
  const auto by_allocated = [](const TimelineRow& a, const TimelineRow& b) { return a.counters.allocated < b.counters.allocated; };
  const auto peak = std::max_element(line.rows.begin(), line.rows.end(), by_allocated);
  const std::size_t n = line.rows.size();
  for (const std::size_t width : {std::size_t{1}, std::size_t{3}, std::size_t{640}, n - 1, n, n + 1, 4 * n}) {
    const Columns made = columns(line, 0, n, width);
    REQUIRE(made.row.size() == width);
    const auto highest = std::max_element(made.allocated.begin(), made.allocated.end());
    CHECK(*highest == peak->counters.allocated);
    CHECK(made.row[static_cast<std::size_t>(highest - made.allocated.begin())] == peak - line.rows.begin());
    CHECK(std::is_sorted(made.row.begin(), made.row.end()));
    for (std::size_t x = 0; x < width; ++x) {
      Bytes sum = 0;
      for (const auto& category : made.categories) sum += category[x];
      REQUIRE(sum == made.allocated[x]);
      REQUIRE(made.reserved[x] >= made.allocated[x]);
    }
  }
}

TEST_CASE("columns of nothing") {
  const Timeline line = timeline(tiny());
  CHECK(columns(line, 0, line.rows.size(), 0).row.empty());
  CHECK(columns(line, 7, 7, 10).row.empty());
  CHECK(columns(line, 8, 7, 10).row.empty());
  CHECK(columns(line, line.rows.size(), line.rows.size() + 5, 10).row.empty());
  CHECK(columns(Timeline{}, 0, 10, 10).row.empty());
  const Columns last = columns(line, line.rows.size() - 1, line.rows.size() + 100, 3);
  CHECK(last.row == std::vector<std::uint32_t>(3, static_cast<std::uint32_t>(line.rows.size() - 1)));
}

TEST_CASE("the pool covers reserved and names the tensors alive") {
  for (const char* rest : {R"(, "batch": 8)", R"(, "batch": 8, "allocator": {"expandable_segments": true})"}) {
    const Config config = config_of(rest);
    const Program program = record(config);
    const std::uint64_t event = estimate(program, config).trace.peak_at.event;
    for (const std::uint64_t at : {std::uint64_t{0}, std::uint64_t{500}, event}) {
      const Pool pool = pool_at(program, config, at);
      const Ledger ledger = ledger_at(program, config, at);
      CHECK(pool.at.event == at);
      CHECK(pool.counters == ledger.counters);
      CHECK_FALSE(pool.oom);
      Bytes reserved = 0;
      Bytes allocated = 0;
      Bytes requested = 0;
      for (const PoolSegment& segment : pool.segments) {
        std::uint64_t address = segment.address;
        for (const PoolBlock& block : segment.blocks) {
          REQUIRE(block.address == address);
          address += block.size;
          if (block.allocated) allocated += block.size;
          requested += block.requested;
          CHECK(block.label.empty() == !block.allocated);
        }
        CHECK(address == segment.address + segment.size);
        reserved += segment.size;
      }
      CHECK(reserved == pool.counters.reserved);
      CHECK(allocated == pool.counters.allocated);
      CHECK(requested == ledger.counters.allocated - ledger.categories[static_cast<std::size_t>(Category::rounding)]);
    }
  }
}

TEST_CASE("the pool at the end of a run that failed") {
  const Config config = config_of(R"(, "batch": 21)");
  const Pool pool = pool_at(record(config), config, ~std::uint64_t{0});
  REQUIRE(pool.oom);
  CHECK(pool.counters == pool.oom->counters);
  Bytes free = 0;
  Bytes largest = 0;
  for (const PoolSegment& segment : pool.segments) {
    for (const PoolBlock& block : segment.blocks) {
      if (block.allocated) continue;
      free += block.size;
      largest = std::max(largest, block.size);
    }
  }
  CHECK(free == pool.oom->cached_free);
  CHECK(largest == pool.oom->largest_piece);
}

TEST_CASE("a recorded program gives the answers of the request") {
  const Config config = tiny();
  const Program program = record(config);
  CHECK(to_json(estimate(program, config)) == to_json(estimate(config)));
  Json whole = to_json(estimate(program, config));
  whole["program_hash"] = whole["trace_hash"] = "";
  whole["ledger"] = Json::array();
  CHECK(to_json(summary(program, config)) == whole);
  CHECK(to_json(timeline(program, config, 1)) == to_json(timeline(config, 1)));
  CHECK(to_json(ledger_at(program, config, 77)) == to_json(ledger_at(config, 77)));
}

TEST_CASE("the search in steps, whatever the axis") {
  for (const Axis axis : {Axis::batch, Axis::seq_len}) {
    const Config config = tiny();
    FitJob job(config, axis);
    int steps = 1;
    while (job.step()) ++steps;
    const Fit found = job.result();
    CHECK_FALSE(job.step());
    CHECK(found.replays == steps);
    CHECK(found.largest == job.largest());
    CHECK(to_json(found) == to_json(fit(config, axis)));
    REQUIRE(found.largest >= 1);
    const auto cell = [&](std::int64_t value) {
      return axis == Axis::batch ? sweep_cell(config, value, config.seq_len) : sweep_cell(config, config.batch, value);
    };
    CHECK(cell(found.largest).fits);
    if (!found.capped) CHECK_FALSE(cell(found.first_failure_at).fits);
  }
}

}  // namespace
