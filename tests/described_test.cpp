// What is modelled from the published code of others: QLoRA, 8-bit AdamW, Muon, Lion, Liger's loss. Held to runs of that code with its
// kernels left out (fixtures/described/runs.jsonl), and to sizes worked out by hand from the sources named in quantized.h and
// optim_others.cpp.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/runs.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

using nlohmann::json;

void check_every_counter(const char* file) {
  for (const json& row : testing::read_json_lines(file)) {
    INFO(row["id"].get<std::string>());
    const json& truth = row["truth"];
    const json report = to_json(estimate(testing::config_of(row["request"])));
    CHECK(report["verdict"] == truth["verdict"]);
    for (const char* key : {"after_model", "after_optimizer", "alloc_retries"}) CHECK(report[key] == truth[key]);
    REQUIRE(report["steps"].size() == truth["steps"].size());
    for (std::size_t i = 0; i < truth["steps"].size(); ++i) {
      for (const auto& [key, value] : truth["steps"][i].items()) {
        INFO("step " << i + 1 << ", " << key);
        CHECK(report["steps"][i][key] == value);
      }
    }
  }
}

TEST_CASE("every counter of every run of bitsandbytes', Liger's and others' code", "[described][fixtures]") {
  check_every_counter(WHATFITS_FIXTURES "/described/runs.jsonl");
}

// Plain PyTorch (tests/oracle/loss_truth.py), and so recorded rather than described.
TEST_CASE("every counter of every run of a loss in chunks under checkpoints", "[described][fixtures]") {
  check_every_counter(WHATFITS_FIXTURES "/torch/chunked-loss.jsonl");
}

// Bytes of every storage with this label, in the order of the program.
std::vector<Bytes> sizes(const Program& program, const std::string& label) {
  std::vector<Bytes> found;
  for (const StorageInfo& storage : program.storages) {
    if (program.labels[storage.label] == label) found.push_back(storage.bytes);
  }
  return found;
}

Program record_of(const std::string& request) {
  const ParsedRequest parsed = parse_request(request);
  REQUIRE(parsed.problems.empty());
  return record(parsed.config);
}

const std::string kQlora = R"({"model": "llama-2-7b", "seq_len": 64, "precision": "amp-bf16", "optimizer": "none",
                               "lora": {"rank": 8, "targets": ["q_proj"], "base": "nf4")";

TEST_CASE("a 4-bit weight's parts", "[described]") {
  const Program program = record_of(kQlora + "}}");
  const std::string q = "model.layers.3.self_attn.q_proj.weight";
  // 4096 * 4096 elements: half a byte each; a byte for 64 of them; a float for 256 of those; 16 values, 256 values, a mean.
  CHECK(sizes(program, q) == std::vector<Bytes>{8'388'608});
  CHECK(sizes(program, q + "'s scales") == std::vector<Bytes>{262'144});
  CHECK(sizes(program, q + "'s scales: scales of these") == std::vector<Bytes>{4'096});
  CHECK(sizes(program, q + "'s scales: the 16 values") == std::vector<Bytes>{64});
  CHECK(sizes(program, q + "'s scales: table of 256") == std::vector<Bytes>{1'024});
  CHECK(sizes(program, q + "'s scales: their mean") == std::vector<Bytes>{4});
  CHECK(sizes(program, q + ", as loaded") == std::vector<Bytes>{33'554'432});
  // Prepared: the embedding, the head and the norms in float32, once they have been loaded in bfloat16.
  CHECK(sizes(program, "lm_head.weight") == std::vector<Bytes>{Bytes{4} * 32000 * 4096});
  CHECK(sizes(program, "lm_head.weight, as loaded") == std::vector<Bytes>{Bytes{2} * 32000 * 4096});
  // All weights count as they were, and 32 adapters of 2 * 8 * 4096.
  CHECK(program.parameters == 6'738'415'616 + 32 * 2 * 8 * 4096);
}

TEST_CASE("without prepare_model_for_kbit_training the rest stays in 16 bits", "[described]") {
  const Program program = record_of(kQlora + R"(, "prepare": false}})");
  CHECK(sizes(program, "lm_head.weight") == std::vector<Bytes>{Bytes{2} * 32000 * 4096});
  CHECK(sizes(program, "lm_head.weight, as loaded").empty());
}

TEST_CASE("8-bit moments, their scales, and what is paged", "[described]") {
  const std::string model = R"({"model": "gpt2-from-scratch", "seq_len": 64, "optimizer": ")";
  const Program program = record_of(model + "adamw-8bit\"}");
  Bytes moments = 0;
  Bytes scales = 0;
  Bytes paged = 0;
  Bytes tables = 0;
  for (const StorageInfo& storage : program.storages) {
    const std::string& label = program.labels[storage.label];
    if (label.starts_with("exp_avg")) {
      moments += storage.bytes;
      if (storage.bytes >= 100'000) paged += storage.bytes;
    }
    if (label.starts_with("scales of exp_avg")) scales += storage.bytes;
    if (label.starts_with("code book")) tables += storage.bytes;
  }
  // Fewer than 4,096 elements: in each of 12 blocks two norms, and biases of 2304, 768, 3072 and 768; the last norm.
  const Bytes small = 12 * (768 * 4 + 2304 + 768 + 3072 + 768) + 1536;
  const Bytes large = 124'439'808 - small;
  CHECK(moments == 2 * (large + 4 * small));
  CHECK(scales == 2 * 4 * (large / 256));  // every large tensor here is a multiple of 256
  CHECK(tables == 2 * 1024);

  const Program in_pages = record_of(model + "adamw-8bit-paged\"}");
  REQUIRE(in_pages.notes.size() >= 1);
  CHECK(in_pages.notes.back().starts_with("paged moments, " + std::to_string(paged) + " bytes"));
  for (const StorageInfo& storage : in_pages.storages)
    CHECK((!in_pages.labels[storage.label].starts_with("exp_avg") || storage.bytes < 100'000));
}

TEST_CASE("losses that have the head in them: what does not go with them is named, and they are written and read again", "[described]") {
  const auto lines = [](const std::string& request) {
    std::vector<std::string> out;
    for (const Problem& problem : parse_request(request).problems) out.push_back(to_line(problem));
    return out;
  };
  using Lines = std::vector<std::string>;
  for (const std::string& loss : {std::string(R"("fused-linear")"), std::string(R"("chunked", "loss_chunks": 3)")}) {
    const ParsedRequest parsed = parse_request(R"({"model": "llama-3.2-1b", "seq_len": 64, "loss": )" + loss + "}");
    REQUIRE(parsed.problems.empty());
    CHECK(parse_request(request_json(parsed.config)).config == parsed.config);
  }
  CHECK(lines(R"({"model": "gpt2", "loss": "fused-linear"})") ==
        Lines{"loss: \"fused-linear\" is not allowed: must be default or chunked for gpt2: Liger's is replayed for llama, mistral, "
              "mixtral, qwen2, qwen3, qwen3_moe, gemma, gemma2 and phi3"});
  CHECK(lines(R"({"model": "gemma-2-2b", "loss": "chunked"})") ==
        Lines{"loss: \"chunked\" is not allowed: must be default or fused-linear for a model that caps its logits"});
  CHECK(lines(R"({"model": "gpt2", "loss": "chunked", "script": {"loss": "outside"}})") ==
        Lines{"loss: \"chunked\" is not allowed: needs script.loss model: it is computed in the model's forward"});
  CHECK(lines(R"({"model": "gpt2", "loss": "chunked", "parallel": {"strategy": "ddp", "gpus": 2}})") ==
        Lines{"loss: \"chunked\" is not allowed: must be default with parallel"});
  CHECK(lines(R"({"model": "gpt2", "loss_chunks": 4})") ==
        Lines{"loss_chunks: \"4\" is not allowed: belongs to loss chunked; leave it out with another"});
  CHECK(lines(R"({"model": "gpt2", "loss": "chunked", "loss_chunks": 129})").size() == 1);
  CHECK(
      lines(R"({"model": {"model_type": "llama", "hidden_size": 2, "intermediate_size": 2, "num_attention_heads": 1, "num_hidden_layers": 1,
                 "vocab_size": 16000000}, "batch": 1048576, "seq_len": 16, "loss": "fused-linear"})")
          .size() == 1);
}

TEST_CASE("Liger's loss takes the power of two at or above tokens / ceil(V / C) tokens at a time", "[described]") {
  // 128,256 / 2,048 is 62.6: 63 parts of the size of the hidden states; 1,024 tokens / 63 is 16.3: 32 at a time.
  const std::string request = R"({"model": "llama-3.2-1b", "batch": 2, "seq_len": 512, "precision": "bf16", "steps": 1, "loss": )";
  const std::vector<Bytes> parts = sizes(record_of(request + R"("fused-linear"})"), "logits of a chunk of tokens");
  REQUIRE(parts.size() >= 32);
  CHECK(parts[0] == Bytes{2} * 32 * 128256);
  // 5 parts of 1,024 tokens: 205 each, 204 in the last.
  const std::vector<Bytes> fifths = sizes(record_of(request + R"("chunked", "loss_chunks": 5})"), "logits of a chunk of tokens");
  REQUIRE(fifths.size() >= 5);
  CHECK(fifths[0] == Bytes{2} * 205 * 128256);
  CHECK(fifths[4] == Bytes{2} * 204 * 128256);
}

TEST_CASE("a report says what is modelled, and claims no recorded run near it", "[described]") {
  for (const std::string& request : {kQlora + "}}", std::string(R"({"model": "gpt2-from-scratch", "optimizer": "adamw-8bit"})"),
                                     std::string(R"({"model": "gpt2", "seq_len": 64, "optimizer": "muon"})"),
                                     std::string(R"({"model": "gpt2", "seq_len": 64, "optimizer": "lion"})"),
                                     std::string(R"({"model": "llama-3.2-1b", "seq_len": 64, "loss": "fused-linear"})")}) {
    INFO(request);
    const json report = to_json(estimate(testing::config_of(json::parse(request))));
    CHECK(report["accuracy"]["measured_rows_near"] == 0);
    CHECK(report["accuracy"]["error_band"].is_null());
    CHECK(report["assumptions"].dump().find("modelled from") != std::string::npos);
    Bytes sum = 0;
    for (const auto& [category, bytes] : report["categories"].items()) sum += bytes.get<Bytes>();
    CHECK(sum == report["peak"]["allocated"].get<Bytes>());
  }
}

TEST_CASE("a request for 4-bit weights is written and read again; what does not go with them is named", "[described]") {
  const auto lines = [](const std::string& request) {
    std::vector<std::string> out;
    for (const Problem& problem : parse_request(request).problems) out.push_back(to_line(problem));
    return out;
  };
  const std::string lora = R"("lora": {"rank": 8, "targets": ["query_key_value"], "base": "nf4"}})";
  const ParsedRequest parsed = parse_request(kQlora + R"(, "prepare": false}})");
  REQUIRE(parsed.problems.empty());
  CHECK(parse_request(request_json(parsed.config)).config == parsed.config);
  CHECK(lines(R"({"model": "falcon-7b", )" + lora) ==
        std::vector<std::string>{"lora.base: \"nf4\" is not allowed: must be null for Falcon: Transformers leaves out its linear layers, "
                                 "which are of a class of their own"});
  CHECK(lines(R"({"model": "pythia-160m", "checkpointing": "selective", )" + lora) ==
        std::vector<std::string>{"lora.base: \"nf4\" is not allowed: must be null with checkpointing selective"});
  CHECK(lines(R"({"model": "pythia-160m", "parallel": {"strategy": "ddp", "gpus": 2}, )" + lora) ==
        std::vector<std::string>{"lora.base: \"nf4\" is not allowed: must be null with parallel"});
  CHECK(lines(kQlora + R"(, "prepare": 1}})").size() == 1);
  CHECK(lines(R"({"model": "pythia-160m", "lora": {"rank": 8, "targets": ["dense"], "prepare": false}})") ==
        std::vector<std::string>{"lora.prepare: belongs to a base in 4 bits; leave it out with base null"});
  CHECK(lines(R"({"model": "pythia-160m", "lora": {"rank": 8, "targets": ["dense"], "base": "int8"}})") ==
        std::vector<std::string>{"lora.base: \"int8\" is not supported yet: only null and nf4 are supported so far"});
}

}  // namespace
}  // namespace whatfits
