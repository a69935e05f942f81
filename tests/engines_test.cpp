// The engines that replay nothing: llm.c's table against what it printed, MLX's form against what was measured.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "support/runs.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

using nlohmann::json;

const std::string kPublished = WHATFITS_FIXTURES "/published/";

/// A printed value of a run that others published, in bytes.
Bytes published(std::string_view id, std::string_view counter) {
  const json file = testing::read_json(kPublished + "others.json");
  for (const json& row : file.at("points")) {
    if (row.at("id") != id) continue;
    for (const json& reading : row.at("measured")) {
      if (reading.at("counter").get<std::string>().starts_with(counter)) return reading.at("bytes");
    }
  }
  FAIL("no reading " << counter << " of " << id);
  return 0;
}

Report report_of(const std::string& request) { return estimate(testing::config_of(request)); }

Bytes of(const Report& report, Category category) { return report.ledger.categories[static_cast<std::size_t>(category)]; }

Bytes row(const Report& report, std::string_view label) {
  for (const LedgerRow& one : report.ledger.rows) {
    if (one.label == label) return one.bytes;
  }
  FAIL("no row " << label);
  return 0;
}

bool says(const Report& report, std::string_view words) {
  return std::any_of(report.assumptions.begin(), report.assumptions.end(),
                     [&](const std::string& line) { return line.find(words) != std::string::npos; });
}

std::string first_problem(const std::string& request) {
  const ParsedRequest parsed = parse_request(request);
  return parsed.problems.empty() ? "" : to_line(parsed.problems.front());
}

constexpr std::string_view kMedium = R"({"model_type": "gpt2", "n_embd": 1024, "n_layer": 24, "n_head": 16})";

std::string medium(const std::string& rest) { return R"({"model": )" + std::string(kMedium) + ", " + rest + "}"; }

TEST_CASE("lines of an engine's account sum to its peak", "[engines]") {
  for (const char* request : {R"({"model": "gpt2-from-scratch", "engine": "llm.c", "batch": 3, "seq_len": 77})",
                              R"({"model": "gpt2", "engine": "llm.c", "precision": "bf16", "checkpointing": "selective"})",
                              R"({"model": "gpt2", "engine": "llm.c", "precision": "bf16", "attention": "eager"})",
                              R"({"model": "llama-2-7b", "engine": "mlx", "precision": "bf16", "checkpointing": "full"})",
                              R"({"model": "gpt2", "engine": "mlx", "optimizer": "lion", "attention": "eager"})"}) {
    INFO(request);
    const Report report = report_of(request);
    Bytes rows = 0;
    for (const LedgerRow& one : report.ledger.rows) rows += one.bytes;
    Bytes categories = 0;
    for (const Bytes bytes : report.ledger.categories) categories += bytes;
    CHECK(rows == report.trace.peak.allocated);
    CHECK(categories == report.trace.peak.allocated);
    CHECK(report.trace.peak.reserved >= report.trace.peak.allocated);
  }
}

// Sizes in elements per token, from the comments of train_gpt2_fp32.cu's ActivationTensors: a layer keeps 18 of C, 4 of one number (means
// and deviations of two norms) and NH of T; outside are two of C, three of one number, and the logits of the padded vocabulary.
TEST_CASE("llm.c's fp32 build, counted over", "[engines]") {
  constexpr Bytes L = 12, C = 768, NH = 12, T = 1024, V = 50304, P = 1024, kFloat = 4;
  constexpr Bytes N = V * C + P * C + L * (12 * C * C + 13 * C) + 2 * C;
  for (const Bytes B : {1, 8, 20}) {
    const Report report =
        report_of(R"({"model": "gpt2-from-scratch", "engine": "llm.c", "seq_len": 1024, "batch": )" + std::to_string(B) + "}");
    CHECK(report.parameters == N);
    const Bytes forward = B * T * (L * (18 * C + 4 + NH * T) + 2 * C + 3 + V);
    const Bytes backward = B * T * (4 * C + NH * T + C);
    const Bytes ids = 2 * B * T;
    CHECK(report.trace.peak.allocated == kFloat * (4 * N + forward + backward + ids));
  }
}

TEST_CASE("llm.c's buffers are as it printed them", "[engines]") {
  // GPT-2 124M in fp32, B = 4: "5706 MiB" of activations; these are all but the gradients of activations.
  const Report small = report_of(R"({"model": "gpt2-from-scratch", "engine": "llm.c", "batch": 4})");
  const Bytes activations = of(small, Category::activations) + of(small, Category::logits) + row(small, "att");
  CHECK(activations / MiB == published("llmc-pr420-gelu-recompute", "activations buffer without") / MiB);
  CHECK(says(small, "activations 5706,"));
  // GPT-2 350M in bf16 with cuDNN and -r 2, B = 20: "12042 MiB".
  const Report medium_run = report_of(medium(R"("engine": "llm.c", "precision": "bf16", "checkpointing": "full", "batch": 20)"));
  const Bytes all = of(medium_run, Category::activations) + of(medium_run, Category::logits) + of(medium_run, Category::attention) +
                    of(medium_run, Category::temporaries);
  CHECK(all / MiB == published("llmc-pr676-350m-b20", "activations buffer before") / MiB);
  CHECK(says(medium_run, "activations 12042,"));
  // GPT-2 1558M in bf16, B = 32: both LayerNorms of all layers are 9600 MiB, and -r 2 spares them.
  const std::string large = R"({"model": {"model_type": "gpt2", "n_embd": 1600, "n_layer": 48, "n_head": 25}, "engine": "llm.c",
                               "precision": "bf16", "batch": 32, "checkpointing": )";
  const Report kept = report_of(large + R"("selective"})");
  CHECK(row(kept, "ln1") + row(kept, "ln2") == published("llmc-issue478-1558m-ln", "LayerNorm outputs"));
  CHECK(kept.trace.peak.allocated - report_of(large + R"("full"})").trace.peak.allocated == row(kept, "ln1") + row(kept, "ln2"));
}

TEST_CASE("the largest batch that llm.c prints is the one that fits", "[engines]") {
  const std::string run = R"({"model": "gpt2", "engine": "llm.c", "precision": "bf16", "checkpointing": "selective",
                             "device": "a100-80gb", "batch": 64})";
  const Fit answer = fit(testing::config_of(run), Axis::batch);
  CHECK(says(report_of(run), "estimated maximum batch size " + std::to_string(answer.largest)));
  CHECK(answer.largest == 237);
  REQUIRE(answer.first_failure);
  CHECK(answer.first_failure->message.starts_with("llm.c's "));
}

TEST_CASE("MLX's attention is as it was measured", "[engines]") {
  // One mlx.fast.scaled_dot_product_attention, forward and backward: 32 heads of 128, bf16. What a run of one layer has for it beyond
  // its saved q, k, v and output.
  for (const Bytes T : {2048, 4096, 8192}) {
    const Report report = report_of(
        R"({"model": {"model_type": "llama", "hidden_size": 4096, "num_hidden_layers": 1, "num_attention_heads": 32, "intermediate_size": 11008,
            "vocab_size": 32000, "max_position_embeddings": 8192}, "engine": "mlx", "precision": "bf16", "attention": "sdpa", "seq_len": )" +
        std::to_string(T) + "}");
    const Bytes saved = 4 * T * 4096 * 2;
    const Bytes peak = of(report, Category::attention) + of(report, Category::temporaries) + saved;
    const Bytes measured = published("mlx-sdpa-backward-seq" + std::to_string(T), "MLX peak, forward + backward");
    INFO(T << ": " << peak << " " << measured);
    CHECK((peak > measured ? peak - measured : measured - peak) <= MiB);
  }
}

TEST_CASE("MLX's form holds within the band that it states", "[engines]") {
  const json account = testing::read_json(kPublished + "general-account.json");
  const json& printed = account.at("rows").at(0);
  const json& measured = account.at("measured_mlx").at("rows").at(0);
  REQUIRE(measured.at("model") == "the 40M shape");
  json request = {{"engine", "mlx"}, {"attention", "eager"}, {"optimizer", "adam"}, {"device", "m2-8gb"}, {"seq_len", 2048}};
  request["model"] = {{"model_type", "gpt2"}, {"n_positions", 2048}, {"tie_word_embeddings", false}};
  for (const char* key : {"n_layer", "n_embd", "n_head", "vocab_size"}) request["model"][key] = printed.at("shape_inferred").at(key);
  const Report report = report_of(request.dump());
  const auto peak = static_cast<double>(report.trace.peak.allocated);
  CHECK(std::abs(peak - printed.at("total").at("bytes").get<double>()) <= 2e6);  // the shape is inferred to within a rounding of each term
  const double error = 100 * (peak / measured.at("bytes").get<double>() - 1);
  CHECK(std::abs(error) <= account.at("measured_mlx").at("estimate_within_percent").get<double>());
  CHECK(says(report, "3.75 GB) it says 4.07 GB"));
  // Of the two budgets that its source names for this machine, the smaller does not hold it.
  CHECK(report.trace.fits());
  CHECK(says(report, "4.00 GB do not hold it"));
  CHECK(says(report, "8.00 GB hold it"));
}

TEST_CASE("what an engine has no table for is refused by name", "[engines]") {
  CHECK(first_problem(R"({"model": "llama-2-7b", "engine": "llm.c"})") ==
        "model: \"llama-2-7b\" is not allowed: must be a GPT-2 with a tied head and an MLP of 4·n_embd with engine llm.c");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "llm.c", "precision": "amp-bf16"})") ==
        "precision: \"amp-bf16\" is not allowed: must be fp32 or bf16 with engine llm.c");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "llm.c", "optimizer": "sgd"})") ==
        "optimizer: \"sgd\" is not allowed: must be adamw with engine llm.c");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "llm.c", "checkpointing": "full"})") ==
        "checkpointing: \"full\" is not allowed: must be none in fp32 with engine llm.c");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "mlx", "checkpointing": "selective"})") ==
        "checkpointing: \"selective\" is not allowed: must be none or full with engine mlx");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "mlx", "attention": "sdpa-math"})") ==
        "attention: \"sdpa-math\" is not allowed: must be eager or sdpa with engine mlx");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "mlx", "lora": {"rank": 8, "targets": ["c_attn"]}})") ==
        "lora: must be null with engine mlx");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "llm.c", "trainable": "last:2"})") == "trainable: must be all with engine llm.c");
  CHECK(first_problem(R"({"model": "gpt2", "engine": "mlx", "dropout": 0.1})") == "dropout: must be 0 or null with engine mlx");
}

}  // namespace
}  // namespace whatfits
