// The figures of the measured article (fixtures/published/gpt2-a40.json: GPT-2 small from scratch, fp32, AdamW, T = 1024, one A40)
// against the replay, each to its printed digits. Nothing is typed in here that the fixture has.
#include <algorithm>
#include <array>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "support/runs.h"
#include "whatfits/estimate.h"

namespace whatfits {
namespace {

using nlohmann::json;

const json& article() {
  static const json file = testing::read_json(WHATFITS_FIXTURES "/published/gpt2-a40.json");
  return file;
}

/// A row of the article by its id, from whichever list has it.
const json& figure(const std::string& id) {
  for (const char* list : {"figures", "other"}) {
    for (const json& row : article()[list]) {
      if (row["id"] == id) return row;
    }
  }
  throw std::runtime_error("the article has no figure " + id);
}

/// Whether `bytes` would be printed with the article's digits.
bool prints_as(std::int64_t bytes, const json& row) {
  const auto printed = row["bytes"].get<std::int64_t>();
  const auto halfwidth = row["rounding_halfwidth_bytes"].get<std::int64_t>();
  return bytes >= printed - halfwidth && bytes <= printed + halfwidth;
}

void check_figure(const std::string& id, std::int64_t bytes) {
  const json& row = figure(id);
  INFO(id << ": " << row["what"] << ", printed " << row["digits_printed"] << " " << row["unit_printed"] << ", replayed " << bytes);
  CHECK(prints_as(bytes, row));
}
void check_figure(const std::string& id, Bytes bytes) { check_figure(id, static_cast<std::int64_t>(bytes)); }

std::int64_t change(const std::optional<Counters>& from, const std::optional<Counters>& to) {
  return static_cast<std::int64_t>(to.value().allocated) - static_cast<std::int64_t>(from.value().allocated);
}

Config article_config(std::int64_t batch) {
  Config config = testing::config_of(std::string(R"({"model": "gpt2-from-scratch", "seq_len": 1024, "device": "a40"})"));
  config.batch = batch;
  return config;
}

const Report& report_of_batch_8() {
  static const Report report = estimate(article_config(8));
  return report;
}
const Timeline& step_2() {
  static const Timeline line = timeline(article_config(8), 2);
  return line;
}

Bytes of(const std::array<Bytes, kCategories>& categories, Category category) { return categories[static_cast<std::size_t>(category)]; }

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t size : shape) n *= size;
  return n;
}

/// The last event of step 2's forward pass.
const TimelineRow& end_of_forward() {
  const auto& rows = step_2().rows;
  const auto last = std::find_if(rows.rbegin(), rows.rend(), [](const TimelineRow& row) { return row.phase == Phase::forward; });
  REQUIRE(last != rows.rend());
  return *last;
}

/// `allocated` before and after each block's events of one phase of step 2, by block.
struct Levels {
  Bytes before = 0;
  Bytes after = 0;
  Bytes highest = 0;
  Bytes gradients = 0;  ///< after
};
std::map<int, Levels> levels_of_blocks(Phase phase) {
  std::map<int, Levels> blocks;
  Bytes level = report_of_batch_8().trace.steps.at(1).before.value().allocated;
  for (const TimelineRow& row : step_2().rows) {
    if (row.phase == phase && row.layer != kNoLayer) {
      const auto [entry, fresh] = blocks.try_emplace(row.layer);
      if (fresh) entry->second.before = level;
      entry->second.after = row.counters.allocated;
      entry->second.highest = std::max(entry->second.highest, row.counters.allocated);
      entry->second.gradients = of(row.categories, Category::gradients);
    }
    level = row.counters.allocated;
  }
  return blocks;
}

TEST_CASE("article: the model and what it costs before a single token", "[articles]") {
  const Report& report = report_of_batch_8();
  CHECK(report.parameters == article()["model"]["parameters"].get<std::uint64_t>());
  const auto& at_peak = report.ledger.categories;
  check_figure("weights", of(at_peak, Category::parameters));
  check_figure("adam_state", of(at_peak, Category::optimizer_state));
  check_figure("causal_masks", of(at_peak, Category::buffers));
  CHECK(of(at_peak, Category::workspaces) == 2 * figure("workspace")["bytes"].get<Bytes>());

  // 16 bytes a parameter once the gradients are there: the last moment of step 2's backward pass.
  const auto& rows = step_2().rows;
  const auto last = std::find_if(rows.rbegin(), rows.rend(), [](const TimelineRow& row) { return row.phase == Phase::backward; });
  REQUIRE(last != rows.rend());
  const Bytes gradients = of(last->categories, Category::gradients);
  check_figure("gradients", gradients);
  check_figure("model_state", of(last->categories, Category::parameters) + gradients + of(last->categories, Category::optimizer_state));
  CHECK(of(last->categories, Category::parameters) + gradients + of(last->categories, Category::optimizer_state) == 16 * report.parameters);
}

TEST_CASE("article: readings around each line of the loop", "[articles]") {
  const Trace& trace = report_of_batch_8().trace;
  const StepCounters& one = trace.steps.at(0);
  const StepCounters& two = trace.steps.at(1);
  check_figure("warmup", trace.after_warmup.value().allocated);
  check_figure("model_cuda", change(trace.after_warmup, trace.after_model));
  check_figure("optimizer_created", change(trace.after_model, trace.after_optimizer));
  check_figure("first_optimizer_step", change(one.after_backward, one.after_optimizer_step));
  check_figure("zero_grad", change(one.after_optimizer_step, one.after_zero_grad));
  check_figure("second_optimizer_step", change(two.after_backward, two.after_optimizer_step));
  check_figure("step2_start", two.before.value().allocated);
  check_figure("step2_forward", change(two.before, two.after_forward));
  check_figure("step2_after_forward", two.after_forward.value().allocated);
  check_figure("step2_peak", two.peak.value().allocated);
  check_figure("step2_peak_less_step1", change(one.peak, two.peak));
}

TEST_CASE("article: each block adds the same, and before the first there are the embeddings", "[articles]") {
  const auto blocks = levels_of_blocks(Phase::forward);
  REQUIRE(blocks.size() == 12);
  check_figure("before_block_1", blocks.at(0).before - report_of_batch_8().trace.steps.at(1).before.value().allocated);
  Bytes least = ~Bytes{0};
  Bytes most = 0;
  for (const auto& [layer, levels] : blocks) {
    INFO("block " << layer);
    if (layer > 0) CHECK(levels.before == blocks.at(layer - 1).after);
    least = std::min(least, levels.after - levels.before);
    most = std::max(most, levels.after - levels.before);
  }
  check_figure("block_least", least);
  check_figure("block_most", most);
}

TEST_CASE("article: the seven lines of a block are in the ledger at the end of forward", "[articles]") {
  const Ledger ledger = ledger_at(article_config(8), end_of_forward().event);
  CHECK(ledger.counters.allocated == report_of_batch_8().trace.steps.at(1).after_forward.value().allocated);
  // The article's words for a tensor -> the ledger's. A block's input is the residual stream that the block before it, or the
  // embedding, made; a block's own "residual stream" is the next one's input, so each block has one of each.
  const std::map<std::string, std::vector<std::string>> labels = {
      {"LayerNorm 1, input and output", {"residual stream", "layer norm output"}},
      // Their products save packed copies of the three parts; the one tensor itself is gone by then. The bytes are the same.
      {"query, key and value in one",
       {"left operand, packed for the product", "right operand, packed for the product", "right operand, packed for the product"}},
      {"attention probabilities", {"attention probabilities"}},
      {"causal mask, compared", {"causal mask comparison"}},
      {"attention output before projection", {"attention output, before projection"}},
      {"LayerNorm 2, input and output", {"residual stream after attention", "layer norm output"}},
      {"MLP hidden, before and after GELU", {"MLP hidden layer, before GELU", "MLP hidden layer, after GELU"}},
  };
  for (std::int16_t layer = 0; layer < 12; ++layer) {
    INFO("block " << layer);
    std::multimap<std::string, LedgerRow> rows;
    Bytes statistics = 0;
    Bytes total = 0;
    for (const LedgerRow& row : ledger.rows) {
      if (row.layer != layer) continue;
      if (row.category == Category::parameters || row.category == Category::optimizer_state || row.category == Category::buffers) continue;
      total += row.bytes;
      if (row.label == "layer norm statistics") {
        statistics += row.bytes;
        continue;
      }
      for (int i = 0; i < row.count; ++i) {
        LedgerRow one = row;
        one.bytes /= static_cast<Bytes>(row.count);
        rows.emplace(row.label, one);
      }
    }
    CHECK(prints_as(static_cast<std::int64_t>(total), figure("block_least")));
    Bytes lines = 0;
    for (const json& line : article()["block"]) {
      const auto name = line["tensor"].get<std::string>();
      INFO(name);
      Bytes bytes = 0;
      std::int64_t elements = 0;
      for (const std::string& label : labels.at(name)) {
        INFO(label);
        const auto row = rows.find(label);
        REQUIRE(row != rows.end());
        CHECK(name_of(row->second.dtype) == line["dtype"].get<std::string>());
        elements += elements_of(row->second.shape);
        bytes += row->second.bytes;
        rows.erase(row);
      }
      CHECK(elements == line["count"].get<std::int64_t>() * elements_of(line["shape"].get<std::vector<std::int64_t>>()));
      CHECK(bytes == line["bytes"].get<Bytes>());
      lines += bytes;
    }
    check_figure("block_lines_total", lines);
    for (const auto& [label, row] : rows) INFO("not in the article: " << label << " " << row.bytes);
    CHECK(rows.empty());
    CHECK(lines + statistics == total);
  }
}

TEST_CASE("article: activations, and four vocabulary-sized tensors at the peak", "[articles]") {
  const Report& report = report_of_batch_8();
  const auto& forward = end_of_forward();
  const StepCounters& two = report.trace.steps.at(1);
  // Everything that forward added but the logits and their log-softmax.
  const Bytes added = forward.counters.allocated - two.before.value().allocated;
  check_figure("activations", added - of(forward.categories, Category::logits));

  int vocabulary_sized = 0;
  Bytes bytes = 0;
  for (const LedgerRow& row : report.ledger.rows) {
    if (row.category != Category::logits) continue;
    vocabulary_sized += row.count;
    bytes += row.bytes;
    check_figure("logits", row.bytes / static_cast<Bytes>(row.count));
  }
  CHECK(vocabulary_sized == figure("vocabulary_tensors")["count"].get<int>());
  check_figure("vocabulary_tensors", bytes);

  bool tokens = false;
  bool positions = false;
  for (const TimelineRow& row : step_2().rows) {
    if (!row.alloc || row.phase != Phase::forward) continue;
    const std::string& label = step_2().labels[row.label];
    if (label == "token embeddings") {
      check_figure("embedding_token", row.bytes);
      tokens = true;
    } else if (label == "position embeddings") {
      check_figure("embedding_position", row.bytes);
      positions = true;
    }
  }
  CHECK(tokens);
  CHECK(positions);
}

TEST_CASE("article: what sets the peak, and where", "[articles]") {
  const Trace& trace = report_of_batch_8().trace;
  check_figure("peak_request", trace.peak_at.requested);
  CHECK(trace.peak_at.requested == figure("peak_request")["bytes"].get<Bytes>());
  CHECK(trace.peak_at.op == OpKind::log_softmax_backward);
  CHECK(trace.peak_at.phase == Phase::backward);
  CHECK(trace.peak_at.layer == kNoLayer);
  CHECK(trace.peak_at.step == 2);
  check_figure("step2_peak", trace.peak.allocated);
}

TEST_CASE("article: gradients grow by the same from block to block and jump at the end", "[articles]") {
  const auto blocks = levels_of_blocks(Phase::backward);
  REQUIRE(blocks.size() == 12);
  for (int layer = 10; layer >= 0; --layer) {
    INFO("block " << layer);
    check_figure("gradient_per_block", blocks.at(layer).gradients - blocks.at(layer + 1).gradients);
  }
  const auto& rows = step_2().rows;
  const auto last = std::find_if(rows.rbegin(), rows.rend(), [](const TimelineRow& row) { return row.phase == Phase::backward; });
  check_figure("gradient_last", of(last->categories, Category::gradients) - blocks.at(0).gradients);
}

TEST_CASE("article: peaks of the batch sweep, allocated and reserved", "[articles]") {
  for (const int batch : {16, 18, 20}) {
    const Report report = estimate(article_config(batch));
    CHECK(report.trace.fits());
    check_figure("batch" + std::to_string(batch) + "_allocated", report.trace.peak.allocated);
    check_figure("batch" + std::to_string(batch) + "_reserved", report.trace.peak.reserved);
  }
  const Counters at_20 = estimate(article_config(20)).trace.peak;
  const Bytes over = article()["budget"]["reserved_over_allocated_percent"]["value_printed"].get<Bytes>();
  CHECK((100 * (at_20.reserved - at_20.allocated) + at_20.allocated / 2) / at_20.allocated == over);
}

TEST_CASE("article: which batches run", "[articles]") {
  for (const int batch : {20, 21, 22, 23, 24}) {
    INFO(batch);
    const json& row = figure("batch" + std::to_string(batch) + "_verdict");
    const Trace trace = estimate(article_config(batch)).trace;
    CHECK((trace.fits() ? "fits" : "oom") == row["verdict"].get<std::string>());
    if (!row["step"].is_null()) CHECK(trace.oom.value().at.step == row["step"].get<int>());
  }
}

TEST_CASE("article: the answer is 20, not the 22 of the straight line", "[articles]") {
  const Fit answer = fit(article_config(1));
  CHECK(answer.largest == article()["budget"]["largest_batch"]["value_printed"].get<std::int64_t>());
  CHECK_FALSE(answer.capped);
  REQUIRE(answer.report);
  CHECK(answer.report->trace.settled);
  CHECK(answer.first_failure_at == 21);
  REQUIRE(answer.first_failure);
  CHECK(answer.first_failure->at.step == figure("batch21_verdict")["step"].get<int>());
  CHECK(answer.bound_by == "reserved");
}

TEST_CASE("article: half the tokens allow more than twice the sequences", "[articles]") {
  Config config = article_config(1);
  const std::int64_t whole = fit(config).largest;
  config.seq_len = 512;
  CHECK(fit(config).largest > 2 * whole);
}

}  // namespace
}  // namespace whatfits
