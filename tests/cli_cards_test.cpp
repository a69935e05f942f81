// fit --devices, explain --sizes and the time of a step, from outside.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>

#include "support/cli.h"

namespace {

using namespace whatfits::testing;
using nlohmann::json;

const std::string kModel = "--model gpt2-from-scratch --seq-len 1024 ";

}  // namespace

TEST_CASE("the smallest card that runs it", "[cli]") {
  // 20 sequences are the most on an A40 (fixtures/published/gpt2-a40.json); the others have half and nearly twice its memory.
  const Result result = run_cli("fit " + kModel + "--batch 20 --devices a100-80gb,a10g,a40 --json");
  CHECK(result.status == 0);
  const json answer = json::parse(result.out);
  CHECK(answer["smallest"] == "a40");
  REQUIRE(answer["devices"].size() == 3);
  CHECK(answer["devices"][0]["device"] == "a10g");  // by free memory
  CHECK(answer["devices"][0]["fits"] == false);
  CHECK(answer["devices"][1]["largest_batch"] == 20);
  CHECK(answer["devices"][2]["fits"] == true);
  CHECK(answer["devices"][1]["tokens_per_second"][0] < answer["devices"][1]["tokens_per_second"][1]);

  const Result words = run_cli("fit " + kModel + "--batch 20 --devices a10g,a40");
  CHECK(first_line(words.out) == "The smallest card that runs it: NVIDIA A40 (a40, 45,440 MiB free)");
  const Result none = run_cli("fit " + kModel + "--batch 21 --devices a10g,a40");
  CHECK(none.status == 1);
  CHECK(first_line(none.out) == "None of these cards runs it");

  // Bfloat16 autocast is not for every card: those are left out of "all", and named when asked for.
  const json all = json::parse(run_cli("fit " + kModel + "--batch 1 --precision amp-bf16 --devices all --json").out);
  CHECK(all["devices"].size() > 25);
  refused("fit " + kModel + "--devices a40 --axis seq-len", "--axis: cannot stand beside --devices, which asks for the request as it is");
  CHECK(run_cli("fit " + kModel + "--devices a41").status == 2);
}

TEST_CASE("sizes by formula and replayed", "[cli]") {
  const Result result = run_cli("explain --sizes --json");
  REQUIRE(result.status == 0);
  const json answer = json::parse(result.out);
  // The account's own printed rows, 4.069 and 7.726 GB, of shapes inferred to a rounding (fixtures/published/general-account.json).
  const auto within_a_rounding = [&](int row, double printed) {
    const double total = answer["shapes"][static_cast<std::size_t>(row)]["account"]["total"].get<double>();
    return total > (printed - 0.001) * 1e9 && total < (printed + 0.001) * 1e9;
  };
  CHECK(within_a_rounding(1, 4.069));
  CHECK(within_a_rounding(2, 7.726));
  for (const json& row : answer["published"]) {
    INFO(row["name"]);
    // Weights, gradients and two moments in fp32 are the least that a replay can show.
    CHECK(row["replay"]["eager"].get<std::uint64_t>() > 16 * row["parameters"].get<std::uint64_t>());
    CHECK(row["replay"]["sdpa"].get<std::uint64_t>() > 16 * row["parameters"].get<std::uint64_t>());
  }
  refused("explain --sizes --model gpt2", "--model: cannot stand beside --sizes, which has its own");
}

TEST_CASE("how long it takes", "[cli]") {
  const Result result = run_cli("estimate " + kModel + "--batch 8 --tokens 8192000");
  CHECK(has(result.out, " a step of 8,192 tokens, "));
  CHECK(has(result.out, "8,192,000 tokens: "));
  CHECK(has(result.out, "Assumed"));
  CHECK(has(run_cli("estimate " + kModel + "--precision amp-bf16 --device a10g").out, "Time: not known, as the rate at which NVIDIA A10G"));
  refused("estimate " + kModel + "--tokens many", "--tokens: \"many\" is not allowed: must be a whole number from 0 to 1000000000000000");
}
