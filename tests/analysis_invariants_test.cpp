// What must hold of every answer: the ledger accounts for every byte, the timeline and the report tell one story, a settled run
// repeats, the sweep and the fit agree, and nothing wraps at the edge of what a request may say.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <numeric>
#include <string>
#include <vector>

#include "analysis/ledger.h"
#include "analysis/replay.h"
#include "support/runs.h"
#include "support/spread.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

using testing::NamedConfig;

Bytes sum_of_rows(const Ledger& ledger) {
  Bytes sum = 0;
  for (const LedgerRow& row : ledger.rows) sum += row.bytes;
  return sum;
}
Bytes sum_of(const std::array<Bytes, kCategories>& categories) { return std::accumulate(categories.begin(), categories.end(), Bytes{0}); }

/// Rows and categories add up to the allocated bytes, and rounding is never more than the blocks can have beyond what was asked for.
std::string problem_with(const Ledger& ledger) {
  if (sum_of_rows(ledger) != ledger.counters.allocated) return "rows sum to " + std::to_string(sum_of_rows(ledger));
  if (sum_of(ledger.categories) != ledger.counters.allocated) return "categories sum to " + std::to_string(sum_of(ledger.categories));
  std::array<Bytes, kCategories> by_row{};
  for (const LedgerRow& row : ledger.rows) by_row[static_cast<std::size_t>(row.category)] += row.bytes;
  if (by_row != ledger.categories) return "categories are not the rows'";
  if (ledger.counters.allocated > ledger.counters.reserved) return "more allocated than reserved";
  if (ledger.rows.empty() || ledger.rows.back().category != Category::rounding) return "no row for rounding";
  return {};
}

TEST_CASE("the ledger accounts for every byte at the peak", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Report report = estimate(c.config);
    CHECK(problem_with(report.ledger) == "");
    CHECK(report.ledger.counters.allocated == report.trace.peak.allocated);
    const Ledger again = ledger_at(c.config, report.trace.peak_at.event);
    CHECK(to_json(again) == to_json(report.ledger));
  }
}

TEST_CASE("the ledger accounts for every byte at fifty moments of the run", "[invariants]") {
  std::vector<NamedConfig> list = testing::oddities();
  const std::vector<NamedConfig> combinations = testing::combinations();
  for (std::size_t i = 0; i < combinations.size(); i += 7) list.push_back(combinations[i]);
  for (const NamedConfig& c : list) {
    INFO(c.name);
    const Program program = record(c.config);
    const int steps = static_cast<int>(c.config.steps);
    std::vector<Counters> counters;
    const Replay::Observer observer = [&](const ReplayEvent& e) {
      counters.push_back(e.counters);
      return true;
    };
    Replay(program, c.config.device, c.config.allocator).run({.steps = steps}, &observer);
    REQUIRE(!counters.empty());
    for (std::size_t k = 0; k < 50; ++k) {
      const std::uint64_t event = k * (counters.size() - 1) / 49;
      const Ledger ledger = make_ledger(program, c.config, event, steps);
      INFO("event " << event);
      REQUIRE(problem_with(ledger) == "");
      REQUIRE(ledger.at.event == event);
      REQUIRE(ledger.counters == counters[event]);
    }
    CHECK(problem_with(make_ledger(program, c.config, counters.size() + 1000, steps)) == "");  // ends where the run ends
  }
}

TEST_CASE("the timeline tells what the report tells", "[invariants]") {
  for (const NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Trace trace = estimate(c.config).trace;
    std::uint64_t next_event = 0;
    for (int step = 0; step <= static_cast<int>(trace.steps.size()); ++step) {
      INFO("step " << step);
      const Timeline line = timeline(c.config, step);
      REQUIRE(line.step == step);
      Bytes allocated = 0;
      Bytes reserved = 0;
      if (step > 0) {
        const StepCounters& s = trace.steps[static_cast<std::size_t>(step) - 1];
        allocated = s.before.value().allocated;
        reserved = s.before.value().reserved;
      }
      std::string problem;
      for (const TimelineRow& row : line.rows) {
        if (sum_of(row.categories) != row.counters.allocated) problem = "categories sum to " + std::to_string(sum_of(row.categories));
        if (row.event != next_event++) problem = "events are not numbered one by one";
        if (row.label >= line.labels.size()) problem = "no label";
        allocated = std::max(allocated, row.counters.allocated);
        reserved = std::max(reserved, row.counters.reserved);
      }
      CHECK(problem == "");
      if (step == 0) {
        if (trace.after_optimizer) CHECK((line.rows.empty() ? Counters{} : line.rows.back().counters) == *trace.after_optimizer);
        continue;
      }
      const std::size_t at = static_cast<std::size_t>(step);
      if (trace.steps[at - 1].peak) {
        CHECK(allocated == trace.steps[at - 1].peak->allocated);
        CHECK(reserved == trace.steps[at - 1].peak->reserved);
        CHECK_FALSE(line.oom);
        if (at < trace.steps.size()) CHECK(line.rows.back().counters == trace.steps[at].before.value());
      } else {
        REQUIRE(line.oom);
        CHECK(to_json(*line.oom) == to_json(trace.oom.value()));
        CHECK(allocated == trace.oom->peak.allocated);
      }
    }
    const Timeline last = timeline(c.config);
    CHECK(last.step == static_cast<int>(trace.steps.size()));
  }
}

TEST_CASE("the peak is the first event at which it was reached", "[invariants]") {
  for (const NamedConfig& c : testing::oddities()) {
    INFO(c.name);
    const Trace trace = estimate(c.config).trace;
    const Timeline line = timeline(c.config, trace.peak_at.step);
    const auto first = std::find_if(line.rows.begin(), line.rows.end(),
                                    [&](const TimelineRow& row) { return row.counters.allocated == trace.peak.allocated; });
    REQUIRE(first != line.rows.end());
    CHECK(first->event == trace.peak_at.event);
    CHECK(first->alloc);
    CHECK(first->bytes == trace.peak_at.requested);
    CHECK(first->op == trace.peak_at.op);
    CHECK(first->phase == trace.peak_at.phase);
    CHECK(first->layer == trace.peak_at.layer);
    for (const StepCounters& step : trace.steps) CHECK((!step.peak || step.peak->allocated <= trace.peak.allocated));
  }
}

bool equal(const StepCounters& a, const StepCounters& b) {
  return a.before == b.before && a.after_forward == b.after_forward && a.after_backward == b.after_backward &&
         a.after_optimizer_step == b.after_optimizer_step && a.after_zero_grad == b.after_zero_grad && a.peak == b.peak;
}

TEST_CASE("a settled run repeats, period after period", "[invariants]") {
  int settled = 0;
  for (NamedConfig& c : testing::spread()) {
    INFO(c.name);
    const Program program = record(c.config);
    const Trace trace = replay(program, c.config, {.steps = 30});
    if (!trace.fits()) continue;
    REQUIRE(trace.settled);
    ++settled;
    const auto period = static_cast<std::size_t>(trace.settled->period);
    const auto from = static_cast<std::size_t>(trace.settled->step);  // steps count from 1: this index is the step after
    REQUIRE(period >= 1);
    REQUIRE(from + period < trace.steps.size());
    for (std::size_t i = from; i + period < trace.steps.size(); ++i) {
      INFO("step " << i + 1);
      CHECK(equal(trace.steps[i], trace.steps[i + period]));
    }
    const Trace stopped = replay(program, c.config, {.steps = 64, .until_settled = true});
    REQUIRE(stopped.settled);
    CHECK(stopped.settled->step == trace.settled->step);
    CHECK(stopped.settled->period == trace.settled->period);
    CHECK(stopped.peak == trace.peak);
  }
  CHECK(settled > 200);
}

/// A small model on a small card, so that its largest batch is found quickly.
Config small_card(const std::string& more) {
  return testing::config_of(
      R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 128, "n_head": 4, "vocab_size": 997, "n_positions": 256},
          "seq_len": 256, "device": {"name": "small", "total_mib": 600, "free_mib": 200, "compute_capability": "8.6", "sm_count": 84})" +
      (more.empty() ? "" : ", " + more) + "}");
}

TEST_CASE("the sweep and the fit agree", "[invariants]") {
  for (const char* more : {"", R"("precision": "amp-bf16")", R"("checkpointing": "full", "optimizer": "sgd")", R"("attention": "sdpa")",
                           R"("allocator": {"expandable_segments": true})"}) {
    INFO(more);
    const Config config = small_card(more);
    const std::vector<std::int64_t> lengths{64, 100, 256};
    std::vector<std::int64_t> batches(64);
    std::iota(batches.begin(), batches.end(), 1);
    const std::vector<SweepCell> cells = sweep(config, batches, lengths);
    REQUIRE(cells.size() == batches.size() * lengths.size());
    for (std::size_t k = 0; k < lengths.size(); ++k) {
      INFO("seq_len " << lengths[k]);
      Config c = config;
      c.seq_len = lengths[k];
      const Fit answer = fit(c);
      for (std::size_t i = 0; i < batches.size(); ++i) {
        const SweepCell& cell = cells[i * lengths.size() + k];
        INFO("batch " << cell.batch);
        CHECK(cell.batch == batches[i]);
        CHECK(cell.seq_len == lengths[k]);
        if (cell.batch == answer.largest) {
          CHECK(cell.fits);
          CHECK(cell.peak == answer.report.value().trace.peak);
        }
        if (cell.batch <= answer.largest && cell.batch + 8 >= answer.largest) CHECK(cell.fits);
        if (cell.batch == answer.first_failure_at) {
          CHECK_FALSE(cell.fits);
          CHECK(cell.drifts == !answer.first_failure);
          CHECK(cell.failed_step == (answer.first_failure ? answer.first_failure->at.step : 0));
        }
      }
    }
    const Fit by_length = fit(config, Axis::seq_len);
    Config c = config;
    c.seq_len = by_length.largest;
    CHECK(replay(record(c), c, {.steps = 64, .until_settled = true}).fits());
    CHECK(by_length.largest <= config.model.n_positions);
  }
}

TEST_CASE("a sweep stops where it is told to", "[invariants]") {
  const Config config = small_card("");
  std::size_t last = 0;
  const auto cells = sweep(config, {1, 2, 3}, {64, 128}, [&](std::size_t done) {
    CHECK(done == ++last);
    return done < 4;
  });
  CHECK(cells.size() == 4);
}

TEST_CASE("requests at the edge of the language are answered without a wrap", "[invariants]") {
  const std::string card = R"("device": {"name": "endless", "total_mib": 1073741824, "free_mib": 1073741824, "compute_capability": "9.0",
                              "sm_count": 132})";
  const auto request = [&](const std::string& dims, const std::string& more) {
    return R"({"model": {"model_type": "gpt2-from-scratch", )" + dims + "}, " + more + ", " + card + "}";
  };
  const std::vector<std::string> requests = {
      request(R"("n_layer": 1, "n_embd": 64, "n_head": 64, "vocab_size": 2, "n_positions": 16)", R"("batch": 1048576, "seq_len": 16)"),
      request(R"("n_layer": 1, "n_embd": 1048576, "n_head": 1048576, "vocab_size": 2, "n_positions": 1)", R"("batch": 1, "seq_len": 1)"),
      request(R"("n_layer": 1, "n_embd": 2, "n_head": 1, "vocab_size": 16777216, "n_positions": 1)", R"("batch": 1000000, "seq_len": 1)"),
      request(R"("n_layer": 1, "n_embd": 2, "n_head": 1, "vocab_size": 2, "n_positions": 1048576)",
              R"("batch": 1, "seq_len": 1048576, "attention": "sdpa", "precision": "bf16")"),
      request(R"("n_layer": 1000, "n_embd": 16, "n_head": 2, "vocab_size": 16, "n_positions": 8)",
              R"("batch": 1, "seq_len": 8, "steps": 1)"),
      request(R"("n_layer": 20, "n_embd": 16, "n_head": 2, "vocab_size": 16, "n_positions": 8)",
              R"("batch": 1, "seq_len": 8, "steps": 64)"),
      request(R"("n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 16, "n_positions": 8)",
              R"("batch": 1, "seq_len": 8, "grad_accumulation": 1024, "steps": 1)"),
      request(R"("n_layer": 1, "n_embd": 16, "n_head": 2, "vocab_size": 16, "n_positions": 8)",
              R"("batch": 1, "seq_len": 8, "script": {"warmup_matmul": 65536})"),
  };
  for (const std::string& text : requests) {
    INFO(text);
    const ParsedRequest parsed = parse_request(text);
    for (const Problem& problem : parsed.problems) UNSCOPED_INFO(to_line(problem));
    REQUIRE(parsed.problems.empty());
    const Config& config = parsed.config;
    const Report report = estimate(config);
    CHECK(problem_with(report.ledger) == "");
    // The bound speaks of what grows with the dimensions: not of rounding, nor of kernels' workspaces, which have no formula.
    Bytes grows = 0;
    for (const LedgerRow& row : report.ledger.rows) grows += row.formula.empty() ? 0 : row.bytes;
    CHECK(grows <= bytes_bound(config));
    CHECK(report.trace.peak.allocated <= report.trace.peak.reserved);
    CHECK(report.trace.peak.reserved <= static_cast<Bytes>(config.device.free_mib) * MiB);
    for (const LedgerRow& row : report.ledger.rows) CHECK(row.bytes <= report.trace.peak.allocated);
    if (report.trace.oom) CHECK(report.trace.oom->segment > report.trace.oom->free);
  }
}

}  // namespace
}  // namespace whatfits
