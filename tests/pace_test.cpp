// Time beside memory: counts against closed forms, rates against what a request says, ranges beside what others measured.
#include "whatfits/pace.h"

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "whatfits/estimate.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

Config config_of(const std::string& json) {
  const ParsedRequest parsed = parse_request(json);
  REQUIRE(parsed.problems.empty());
  return parsed.config;
}

Pace pace_of(const std::string& json) {
  const Config config = config_of(json);
  return pace(record(config), config);
}

// GPT-2 small. Forward multiplies 12·C² weights a block and V·C for the logits, and twice T·C a block in attention; backward does
// each product twice. Two operations a multiply-add.
constexpr std::uint64_t C = 768, L = 12, V = 50257, T = 1024, kTokens = 4 * T;
constexpr std::uint64_t kBlock = 2 * (12 * C * C + 2 * T * C);

}  // namespace

TEST_CASE("operations are those of the matrix products that run", "[pace]") {
  const Pace plain = pace_of(R"({"model": "gpt2-from-scratch", "batch": 4, "seq_len": 1024})");
  CHECK(plain.tokens == kTokens);
  CHECK(plain.flops == kTokens * 3 * (L * kBlock + 2 * V * C));
  CHECK(plain.flops_again == 0);
  CHECK(plain.flops_by_rule == kTokens * (6 * 124439808 + 12 * L * C * T));
  CHECK(plain.optimizer_bytes < plain.bytes);
  // A fused AdamW reads a weight, its gradient and two moments and writes three of them.
  const Pace fused_adamw = pace_of(R"({"model": "gpt2-from-scratch", "batch": 4, "seq_len": 1024, "optimizer": "adamw-fused"})");
  CHECK(fused_adamw.optimizer_bytes / 124439808 == 28);
  CHECK(plain.optimizer_bytes / 124439808 == 84);

  // Reentrant checkpoints run whole blocks again; the others stop when the last saved tensor is back, before the MLP's second product.
  const Pace whole = pace_of(R"({"model": "gpt2-from-scratch", "batch": 4, "seq_len": 1024, "checkpointing": "full"})");
  CHECK(whole.flops_again == kTokens * L * (kBlock - 2 * 4 * C * C));
  CHECK(whole.flops == plain.flops + whole.flops_again);

  // Under a causal mask fused attention computes half the scores, and computes them once more in backward.
  const Pace fused =
      pace_of(R"({"model": "gpt2-from-scratch", "batch": 4, "seq_len": 1024, "precision": "amp-bf16", "attention": "sdpa-flash",
                                 "device": "a100-80gb"})");
  CHECK(fused.flops == kTokens * (3 * (L * 2 * 12 * C * C + 2 * V * C) + L * 2 * T * C * 7 / 2));

  // The graph of frozen weights has no products for their gradients.
  const Pace adapters = pace_of(R"({"model": "gpt2", "batch": 4, "seq_len": 1024, "lora": {"rank": 8, "targets": ["c_attn"]}})");
  CHECK(adapters.flops < plain.flops * 3 / 4);

  const Pace two = pace_of(R"({"model": "gpt2-from-scratch", "batch": 2, "seq_len": 1024, "grad_accumulation": 2})");
  CHECK(two.tokens == plain.tokens);
  CHECK(two.flops == plain.flops);
  CHECK(two.operators > plain.operators);
}

TEST_CASE("ranks train on tokens of their own, unless they share each matrix", "[pace]") {
  const std::string run = R"({"model": "tinyllama-1.1b", "precision": "bf16", "batch": 2, "seq_len": 256, "parallel": )";
  const Pace apart = pace_of(run + R"({"strategy": "fsdp", "gpus": 4}})");
  CHECK(apart.tokens == 512);
  CHECK(apart.tokens_of_all() == 2048);
  CHECK(apart.tokens_per_second(1'000'000) == 2048);
  const Pace together = pace_of(run + R"({"strategy": "ddp", "gpus": 4, "tensor": 4}})");
  CHECK(together.tokens_of_all() == 512);
}

TEST_CASE("time follows the card's rates", "[pace]") {
  const auto on = [](const std::string& rates) {
    return pace_of(R"({"model": "gpt2-from-scratch", "batch": 4, "device": {"name": "mine", "total_mib": 24000, "compute_capability": "8.6",
                       "sm_count": 80)" +
                   rates + "}}");
  };
  const Pace known = on(R"(, "fp32_tflops": 20, "bandwidth_gbs": 800.5)");
  CHECK(known.unknown.empty());
  // At 80 % of 20 TFLOP/s the products alone take this long.
  CHECK(known.fastest_us > known.flops / (16 * 1'000'000));
  CHECK(known.slowest_us > known.fastest_us);
  CHECK(known.tokens_per_second(2'000'000) == kTokens / 2);
  CHECK(known.tokens_per_second(0) == 0);
  const Pace faster = on(R"(, "fp32_tflops": 40, "bandwidth_gbs": 800.5)");
  CHECK(faster.fastest_us < known.fastest_us);
  CHECK(faster.percent_of(known) < 100);
  CHECK(known.percent_of(known) == 100);

  CHECK(on("").unknown == "the rate at which mine multiplies float32 matrices is not known");
  CHECK(on(R"(, "fp32_tflops": 20)").unknown == "the memory bandwidth of mine is not known");
  CHECK(on("").fastest_us == 0);
  CHECK(on("").percent_of(known) == 0);

  // A small run waits for its operators to be launched, whatever the card can.
  const Pace tiny =
      pace_of(R"({"model": {"model_type": "gpt2-from-scratch", "n_embd": 48, "n_head": 3, "n_layer": 2}, "batch": 1, "seq_len": 8,
                              "device": "h100"})");
  CHECK(tiny.fastest_us == tiny.operators * kLaunchMicroseconds.best);
}

TEST_CASE("a card's rates are read, written and refused like its other figures", "[pace][request]") {
  const std::string card = R"({"name": "mine", "total_mib": 24000, "free_mib": 23000, "compute_capability": "8.6", "sm_count": 80)";
  const Config config =
      config_of(R"({"model": "gpt2-from-scratch", "device": )" + card + R"(, "bf16_tflops": 71.5, "bandwidth_gbs": 936}})");
  CHECK(config.device.rates == Rates{.bf16_gflops = 71500, .bandwidth_mbs = 936000});
  CHECK(config_of(request_json(config).dump()) == config);
  for (const char* wrong : {"0", "-1", "\"fast\"", "1e9", "true"}) {
    const ParsedRequest parsed =
        parse_request(R"({"model": "gpt2-from-scratch", "device": )" + card + R"(, "fp32_tflops": )" + wrong + "}}");
    REQUIRE(parsed.problems.size() == 1);
    CHECK(to_line(parsed.problems[0]).find("device.fp32_tflops") == 0);
  }
}

// All of these were compiled or written as fused kernels, so they are faster than eager PyTorch, which is what is replayed; but not by
// much more than the memory traffic that fusion saves. 1,024 tokens; activations in bfloat16 as theirs.
TEST_CASE("published speeds lie from the range's slow end to two and a half times its fast end", "[pace][published]") {
  int seen = 0;
  for (const MeasuredPace& row : measured_paces()) {
    const std::string model = row.parameters == 124439808 ? "gpt2" : row.parameters == 1557611200 ? "gpt2-xl" : "";
    if (model.empty()) continue;
    INFO(row.model << " on " << row.device);
    const Pace ours =
        pace_of(R"({"model": ")" + model + R"(", "precision": "bf16", "attention": "sdpa", "batch": )" + std::to_string(row.batch) +
                R"(, "seq_len": )" + std::to_string(row.seq_len) + R"(, "device": ")" + row.device + "\"}");
    CHECK(row.tokens_per_second > ours.tokens_per_second(ours.slowest_us));
    CHECK(row.tokens_per_second < 5 * ours.tokens_per_second(ours.fastest_us) / 2);
    CHECK(!ours.measured.empty());
    ++seen;
  }
  CHECK(seen == 6);
}

}  // namespace whatfits
