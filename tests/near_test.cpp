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

TEST_CASE("the core's table of runs on real cards is what the fixtures say", "[near]") {
  std::ifstream in(WHATFITS_FIXTURES "/../estimator/src/analysis/card_runs_table.inc");
  const std::string table{std::istreambuf_iterator<char>(in), {}};
  CHECK(table == accuracy::card_runs_table(WHATFITS_FIXTURES));  // if not: build/release/tools/accuracy_table --cards writes it
}

TEST_CASE("runs on real cards are told apart as recorded ones are, and quantised ones too", "[near]") {
  using Band = CardRuns::Band;
  // The sweep of fixtures/published/gpt2-a40.json: four batches that ended, each figure printed to a MiB of 17,054 at least, so that
  // half a unit is within 30 in a million.
  const CardRuns sweep = card_runs(config(R"({"model": "gpt2-from-scratch", "batch": 2, "device": "h100"})"));
  CHECK(sweep.near == 4);
  CHECK(sweep.family == 4);
  CHECK(sweep.all == 17);  // 13 of others.json besides: grade A, one card, a peak that PyTorch counted
  CHECK(sweep.band == Band::near);
  CHECK(sweep.least_ppm >= -30);
  CHECK(sweep.most_ppm <= 30);
  CHECK(sweep.least_ppm < 0);  // printed digits leave something off on both sides
  CHECK(sweep.most_ppm > 0);

  const CardRuns half = card_runs(config(R"({"model": "gpt2-from-scratch", "precision": "amp-bf16"})"));
  CHECK(half.near == 0);
  CHECK(half.band == Band::family);
  CHECK(half.least_ppm == sweep.least_ppm);
  // No run stands behind a modelled optimizer, whatever it shares else.
  CHECK(card_runs(config(R"({"model": "gpt2-from-scratch", "optimizer": "lion"})")).near == 0);

  const CardRuns none = card_runs(config(R"({"model": "gemma-2b"})"));
  CHECK(none.near == 0);
  CHECK(none.family == 0);
  CHECK(none.all == sweep.all);
  CHECK(none.band == Band::all);
  CHECK(none.least_ppm < -100000);  // SantaCoder at batch 8: others.json's largest error, and it is said

  const std::string mistral =
      R"({"model": "mistral-7b-v0.1", "attention": "sdpa-flash", "checkpointing": "full-reentrant", "device": "h100", )";
  CHECK(card_runs(config(mistral + R"("precision": "bf16"})")).near == 4);
  CHECK(card_runs(config(mistral + R"("precision": "bf16", "lora": {"rank": 8, "targets": ["q_proj"]}})")).near == 2);
  CHECK(card_runs(config(mistral + R"("precision": "amp-bf16", "lora": {"rank": 8, "targets": ["q_proj"], "base": "nf4"}})")).near == 2);
  CHECK(card_runs(config(mistral + R"("precision": "amp-bf16", "lora": {"rank": 8, "targets": ["q_proj"]}})")).near == 0);
  CHECK(card_runs(config(mistral + R"("precision": "bf16", "parallel": {"strategy": "ddp", "gpus": 2}})")).near == 0);
}

TEST_CASE("errors on real cards are said with their side, rounded outwards", "[near]") {
  using Band = CardRuns::Band;
  CHECK(in_words(CardRuns{.near = 4, .family = 4, .all = 17, .band = Band::near, .least_ppm = -13, .most_ppm = 7}) ==
        "4 runs on real cards are like it; their peaks are predicted from 0.01 % below to 0.01 % above what PyTorch counted.");
  CHECK(in_words(CardRuns{.near = 1, .family = 2, .all = 17, .band = Band::near, .least_ppm = -34616, .most_ppm = -34615}) ==
        "1 run on a real card is like it; its peak is predicted from 3.47 % below to 3.46 % below what PyTorch counted.");
  CHECK(in_words(CardRuns{.near = 1, .family = 1, .all = 1, .band = Band::near, .least_ppm = 0, .most_ppm = 0}) ==
        "1 run on a real card is like it; its peak is predicted to the byte of what PyTorch counted.");
  CHECK(in_words(CardRuns{.family = 8, .all = 17, .band = Band::family, .least_ppm = 150, .most_ppm = 201}) ==
        "No run on a real card is like it; of its family 8 are on record, and their peaks are predicted from 0.01 % above to 0.03 % above "
        "what PyTorch counted.");
  CHECK(in_words(CardRuns{.all = 17, .band = Band::all, .least_ppm = -99, .most_ppm = 0}) ==
        "No run of this family on a real card is on record; of other families 17 are, and their peaks are predicted from 0.01 % below to "
        "0.00 % above what PyTorch counted.");
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
  CHECK(in_words(Near{}) == "No run of this family was recorded.");
  CHECK(in_words(Near{.runs = 1, .worst_ppm = 1, .family_runs = 2, .family_worst_ppm = 1}) ==
        "1 recorded run of PyTorch like this one, by model, precision, attention and checkpointing, is predicted within 0.01 %.");
  CHECK(
      in_words(Near{.family_runs = 12, .family_worst_ppm = 7300}) ==
      "No recorded run of PyTorch is like this one in precision, attention and checkpointing; 12 recorded runs of its family are predicted "
      "within 0.73 %.");
}

TEST_CASE("a report carries them", "[near]") {
  const Json accuracy = to_json(estimate(config(R"({"model": "gpt2-from-scratch"})")))["accuracy"];
  CHECK(accuracy["basis"] == "replay");
  CHECK(accuracy["measured_rows_near"] == near_runs(config(R"({"model": "gpt2-from-scratch"})")).runs);
  CHECK(accuracy["error_band"].is_number_integer());
  CHECK(accuracy["error_band"] == 0);
  const CardRuns cards = card_runs(config(R"({"model": "gpt2-from-scratch"})"));
  CHECK(accuracy["real_cards"]["near"] == cards.near);
  CHECK(accuracy["real_cards"]["family"] == cards.family);
  CHECK(accuracy["real_cards"]["all"] == cards.all);
  CHECK(accuracy["real_cards"]["band"] == Json({{"of", "near"}, {"least_ppm", cards.least_ppm}, {"most_ppm", cards.most_ppm}}));
  CHECK(accuracy["real_cards"]["words"] == in_words(cards));
  const Json formula = to_json(estimate(config(R"({"model": "gpt2-from-scratch", "engine": "formula"})")))["accuracy"];
  CHECK(formula["measured_rows_near"] == 0);
  CHECK(formula["error_band"].is_null());
  CHECK(formula["real_cards"].is_null());
}
