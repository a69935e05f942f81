// Recorded runs like one: the core's table is what the fixtures say, and words are made of it.
#include <catch2/catch_test_macros.hpp>
#include <fstream>
#include <iterator>

#include "accuracy/near.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/near.h"
#include "whatfits/request.h"

using namespace whatfits;

namespace {

Config config(const std::string& json) {
  const ParsedRequest parsed = parse_request(json);
  REQUIRE(parsed.problems.empty());
  return parsed.config;
}

}  // namespace

TEST_CASE("the core's table of recorded runs is what the fixtures say", "[near]") {
  std::ifstream in(WHATFITS_FIXTURES "/../estimator/src/analysis/near_table.inc");
  const std::string table{std::istreambuf_iterator<char>(in), {}};
  CHECK(table == accuracy::near_table(WHATFITS_FIXTURES));  // if not: build/release/tools/accuracy_table --near writes it
}

TEST_CASE("recorded runs are counted by what they share with a request", "[near]") {
  const Near own = near_runs(config(R"({"model": "gpt2-from-scratch"})"));
  CHECK(own.runs > 0);
  CHECK(own.runs < own.family_runs);
  CHECK(own.worst_ppm == 0);
  CHECK(in_words(own) ==
        std::to_string(own.runs) +
            " recorded runs of PyTorch like this one, by model, precision, attention and checkpointing, are predicted to the byte.");
  // Sizes, batch, card and optimizer do not tell runs apart.
  const Near other = near_runs(config(R"({"model": "gpt2-from-scratch", "batch": 3, "device": "h100", "optimizer": "sgd"})"));
  CHECK(other.runs == own.runs);

  const Near unlike =
      near_runs(config(R"({"model": "gpt2-from-scratch", "attention": "sdpa", "parallel": {"strategy": "ddp", "gpus": 2}})"));
  CHECK(unlike.family_runs == own.family_runs);
}

TEST_CASE("errors of recorded runs are said rounded up", "[near]") {
  CHECK(in_words({}) == "No run of this family was recorded.");
  CHECK(in_words({.runs = 1, .worst_ppm = 1, .family_runs = 2, .family_worst_ppm = 1}) ==
        "1 recorded run of PyTorch like this one, by model, precision, attention and checkpointing, is predicted within 0.01 %.");
  CHECK(
      in_words({.family_runs = 12, .family_worst_ppm = 7300}) ==
      "No recorded run of PyTorch is like this one in precision, attention and checkpointing; 12 recorded runs of its family are predicted "
      "within 0.73 %.");
}

TEST_CASE("a report carries them", "[near]") {
  const Json accuracy = to_json(estimate(config(R"({"model": "gpt2-from-scratch"})")))["accuracy"];
  CHECK(accuracy["basis"] == "replay");
  CHECK(accuracy["measured_rows_near"] == near_runs(config(R"({"model": "gpt2-from-scratch"})")).runs);
  CHECK(accuracy["error_band"].is_number_integer());
  CHECK(accuracy["error_band"] == 0);
  const Json formula = to_json(estimate(config(R"({"model": "gpt2-from-scratch", "engine": "formula"})")))["accuracy"];
  CHECK(formula["measured_rows_near"] == 0);
  CHECK(formula["error_band"].is_null());
}
