// `fit` against real PyTorch: of 15 runs on a virtual device the largest batch that ran three steps, the first that failed, and whether
// the former went on for ten steps (fixtures/torch/largest-batch.json).
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "support/runs.h"
#include "whatfits/estimate.h"

namespace whatfits {
namespace {

TEST_CASE("The largest batch is the recorded one, or a smaller one where the recorded one failed later", "[fixtures]") {
  for (const nlohmann::json& row : testing::read_json(WHATFITS_FIXTURES "/torch/largest-batch.json")) {
    INFO(row["id"] << ": " << row["request"].dump());
    Config config = testing::config_of(row["request"]);
    const Fit answer = fit(config);
    const auto recorded = row["runs_three_steps"].get<std::int64_t>();
    if (row["ten_steps_at_that_batch"]["verdict"].get<std::string>() == "fits") {
      CHECK(answer.largest == recorded);
    } else {
      CHECK(answer.largest < recorded);
    }
    config.steps = 3;
    config.batch = row["first_failure"].get<std::int64_t>();
    CHECK_FALSE(estimate(config).trace.fits());
    config.batch = recorded;
    CHECK(estimate(config).trace.fits());
  }
}

}  // namespace
}  // namespace whatfits
