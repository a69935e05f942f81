// Every recorded run of real PyTorch (fixtures/torch/*.jsonl; each row says with which version and device it was made) against the
// report of the same request: every counter equal to the byte, the verdict, the failing step, the message, the retries.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/runs.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"

namespace whatfits {
namespace {

using nlohmann::json;

const std::vector<json>& rows() {
  static const std::vector<json> all = testing::read_json_lines(WHATFITS_FIXTURES "/torch/gpt2-from-scratch.jsonl");
  return all;
}

void check_run_out_of_memory(const json& ours, const json& truth) {
  REQUIRE(ours.is_object());
  const std::set<std::string> compared{"step", "phase", "message", "peak"};
  for (const auto& [key, value] : truth.items()) {
    INFO("oom." << key);
    REQUIRE(compared.contains(key));  // a fixture says nothing that no test looks at
    CHECK(ours[key] == value);
  }
}

TEST_CASE("every counter of every recorded run is exact", "[fixtures]") {
  REQUIRE(rows().size() >= 106);
  for (const json& row : rows()) {
    DYNAMIC_SECTION(row["id"].get<std::string>()) {
      INFO(row["request"].dump());
      const json& truth = row["truth"];
      const json report = to_json(estimate(testing::config_of(row["request"])));
      for (const auto& [key, value] : truth.items()) {
        INFO(key);
        if (key == "oom") {
          check_run_out_of_memory(report["oom"], value);
        } else if (key == "steps") {
          REQUIRE(report["steps"].size() == value.size());
          for (std::size_t i = 0; i < value.size(); ++i) {
            INFO("step " << i + 1);
            CHECK(report["steps"][i] == value[i]);  // the same points, each with the same two counters
          }
        } else {
          REQUIRE(report.contains(key));
          CHECK(report[key] == value);
        }
      }
      for (const char* key : {"verdict", "parameters", "alloc_retries", "after_warmup", "after_model", "after_optimizer", "steps"})
        CHECK(truth.contains(key));
      CHECK(report["oom"].is_null() == !truth.contains("oom"));
      if (truth["verdict"] == "fits") CHECK(report["steady_peak"] == truth["steps"].back()["peak"]);
    }
  }
}

TEST_CASE("the recorded runs are all different requests", "[fixtures]") {
  std::set<std::string> ids;
  std::set<std::string> requests;
  for (const json& row : rows()) {
    ids.insert(row["id"].get<std::string>());
    requests.insert(row["request"].dump());
    CHECK(row.contains("provenance"));
  }
  CHECK(ids.size() == rows().size());
  CHECK(requests.size() == rows().size());
}

}  // namespace
}  // namespace whatfits
