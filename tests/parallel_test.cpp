// Several cards: one rank of real PyTorch over a fake process group (fixtures/torch/parallel.jsonl, made by tests/oracle/parallel_truth.py)
// against the report of the same request, every counter to the byte; and what communication needs beside it.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/virtual_source.h"
#include "support/runs.h"
#include "torch/kernel_sizes.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

using nlohmann::json;

TEST_CASE("several cards: every counter of every recorded run is exact", "[parallel][fixtures]") {
  std::map<std::string, int> strategies;
  for (const json& row : testing::read_json_lines(WHATFITS_FIXTURES "/torch/parallel.jsonl")) {
    INFO(row["id"].get<std::string>() << ": " << row["request"].dump());
    const json& truth = row["truth"];
    const json report = to_json(estimate(testing::config_of(row["request"])));
    for (const char* key : {"verdict", "parameters", "after_warmup", "after_model", "after_optimizer", "alloc_retries"}) {
      INFO(key);
      CHECK(report[key] == truth[key]);
    }
    CHECK(report["parallel"]["worst_rank"] == truth.value(json::json_pointer("/parallel/rank"), 0));
    REQUIRE(report["steps"].size() == truth["steps"].size());
    for (std::size_t i = 0; i < truth["steps"].size(); ++i) {
      INFO("step " << i + 1);
      for (const auto& [key, value] : truth["steps"][i].items()) {
        INFO(key);
        CHECK(report["steps"][i][key] == value);
      }
    }
    REQUIRE(report["oom"].is_null() == !truth.contains("oom"));
    if (truth.contains("oom")) {
      for (const char* key : {"step", "phase", "message"}) CHECK(report["oom"][key] == truth["oom"][key]);
    }
    const json& parallel = row["request"]["parallel"];
    ++strategies[parallel.value("tensor", 1) > 1 ? "tensor" : parallel["strategy"].get<std::string>()];
  }
  CHECK(strategies["ddp"] >= 6);
  CHECK(strategies["fsdp"] >= 6);
  CHECK(strategies["zero1"] >= 12);
  CHECK(strategies["zero2"] >= 12);
  CHECK(strategies["zero3"] >= 2);
  CHECK(strategies["tensor"] >= 10);
}

TEST_CASE("several cards: the report says which rank it is of and what it leaves out", "[parallel]") {
  const Config config = testing::config_of(std::string(
      R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 2}, "seq_len": 128, "parallel": {"strategy": "fsdp", "gpus": 8}})"));
  const json report = to_json(estimate(config));
  CHECK(report["parallel"] == json{{"ranks", 8}, {"rank", 0}, {"worst_rank", 0}});
  CHECK(report["request"]["parallel"] == json{{"strategy", "fsdp"}, {"gpus", 8}, {"tensor", 1}, {"pipeline", 1}, {"sequence", 1}});
  const auto says = [&](const std::string& words) {
    return std::any_of(report["assumptions"].begin(), report["assumptions"].end(),
                       [&](const json& line) { return line.get<std::string>().find(words) != std::string::npos; });
  };
  CHECK(says("rank 0 of 8 ranks"));
  CHECK(says("NCCL"));
  CHECK(parse_request(request_json(config)).config == config);
}

TEST_CASE("several cards: shards leave room for a larger batch, buckets take it", "[parallel]") {
  const auto largest = [](const std::string& parallel) {
    return fit(testing::config_of(R"({"model": "gpt2-from-scratch", "seq_len": 128, "attention": "sdpa", "device": {"name": "small",
                                     "total_mib": 4600, "free_mib": 4000, "compute_capability": "8.6", "sm_count": 84}, "parallel": )" +
                                  parallel + "}"),
               Axis::batch)
        .largest;
  };
  const auto one = largest("null");
  const auto ddp = largest(R"({"strategy": "ddp", "gpus": 8})");
  const auto fsdp = largest(R"({"strategy": "fsdp", "gpus": 8})");
  CHECK(ddp < one);
  CHECK(fsdp > one);
}

TEST_CASE("a stream's freed block is not another stream's to use", "[parallel][allocator]") {
  VirtualSource card(Bytes{1} * GiB);
  CachingAllocator allocator(card, {}, GiB);
  const auto first = allocator.allocate(4 * MiB, 1);
  REQUIRE(first);
  const Address address = allocator.address(*first);
  allocator.free(*first);
  CHECK(allocator.reserved() == 20 * MiB);
  const auto other = allocator.allocate(4 * MiB, 0);
  REQUIRE(other);
  CHECK(allocator.reserved() == 40 * MiB);
  const auto again = allocator.allocate(4 * MiB, 1);
  REQUIRE(again);
  CHECK(allocator.address(*again) == address);
  CHECK(allocator.reserved() == 40 * MiB);
}

// Recorded from PyTorch 2.6.0 on a virtual A40: the one allocation of each call beside its output, for rows of float32.
TEST_CASE("tables of addresses are as large as recorded", "[parallel][kernels]") {
  struct Case {
    std::int64_t chunks;
    std::vector<std::int64_t> elements;
    Bytes split, cat;
  };
  const Case cases[] = {
      {2, {1000}, 8 * (5 + 2), 8 * (8 + 2)},
      {2, {3000000}, 8 * (5 + 1954), 8 * (8 + 5860)},
      {8, {100000}, 8 * (5 + 196), 8 * (8 + 196)},
      {8, {3000000}, 8 * (5 + 1172), 8 * (8 + 5860)},
      {8, {20000000, 300}, 8 * (9 + 1955), 8 * (14 + 39064)},
      {64, {100000}, 8 * (5 + 66), 8 * (8 + 196)},
      {64, {1000, 2000000, 5000000}, 8 * (13 + 654), 8 * (20 + 13675)},
  };
  for (const Case& c : cases) {
    std::vector<Bytes> parts;
    for (const std::int64_t n : c.elements) parts.push_back(4 * static_cast<Bytes>(n));
    INFO(c.chunks << " chunks of " << parts[0] << " bytes and more");
    CHECK(torch::split_copy_metadata(parts, c.chunks, {84, 86}) == c.split);
    CHECK(torch::chunk_cat_metadata(parts) == c.cat);
  }
}

}  // namespace
}  // namespace whatfits
