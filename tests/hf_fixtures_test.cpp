// Real Transformers models trained by real PyTorch on a virtual device (fixtures/torch/huggingface.jsonl) against the report of the same
// request. Every counter is equal to the byte but in the runs named below, each with its cause; those are held to 1 % in allocated and
// 2 % in reserved at the peak.
#include <catch2/catch_test_macros.hpp>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/runs.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"

namespace whatfits {
namespace {

using nlohmann::json;

const std::map<std::string, std::string> kInexact = {
    {"gemma-2-2b-ampbf16-B3-T1024-eager-gcn-adamw_fused-lossonly-expand", "one small-pool page of an expandable segment"},
    {"gpt2-nodrop-fp32-B6-T512-eager-gcr-acc2-zbegin-expand-h100",
     "a mask passed to a reentrant checkpoint by position goes with its node's saved tensors, here with the graph"},
    {"mixtral-small-ampbf16-B8-T2048-gcr-adam-h100", "sorting scratch of the experts in one forward"},
    {"opt-350m-ampfp16-B4-T512-adamw_fused-4090", "one scalar of the gradient scaler with a fused optimizer in step 1"},
    {"pythia-410m-fp32-B16-T2048-gcn-adamw_loop-fzlast2-lossonly", "Python's garbage collector keeps two inputs of frozen blocks longer"},
};

bool near(const json& ours, const json& truth, double tolerance) {
  const double wanted = truth.get<double>();
  const double off = ours.get<double>() - wanted;
  return off <= tolerance * wanted && off >= -tolerance * wanted;
}

void check_exact(const json& report, const json& truth) {
  for (const char* key : {"after_model", "after_optimizer", "alloc_retries"}) {
    INFO(key);
    CHECK(report[key] == truth.value(key, json(nullptr)));  // a run that fails before has none
  }
  REQUIRE(report["steps"].size() == truth["steps"].size());
  for (std::size_t i = 0; i < truth["steps"].size(); ++i) {
    INFO("step " << i + 1);
    // The recording script notes a step's readings when its last micro-batch is done: where an earlier one was refused it has none.
    for (const auto& [key, value] : truth["steps"][i].items()) {
      INFO(key);
      CHECK(report["steps"][i][key] == value);
    }
  }
  CHECK(report["oom"].is_null() == !truth.contains("oom"));
  if (!truth.contains("oom") || report["oom"].is_null()) return;
  for (const auto& [key, value] : truth["oom"].items()) {
    INFO("oom." << key);
    CHECK(report["oom"][key] == (value == "to_cuda" ? json("model") : value));  // the recording's word for moving the model
  }
}

TEST_CASE("Hugging Face's models: every counter of every recorded run", "[hf][fixtures]") {
  std::size_t exact = 0;
  const std::vector<json> rows = testing::read_json_lines(WHATFITS_FIXTURES "/torch/huggingface.jsonl");
  for (const json& row : rows) {
    const auto id = row["id"].get<std::string>();
    INFO(id << ": " << row["request"].dump());
    const json& truth = row["truth"];
    const json report = to_json(estimate(testing::config_of(row["request"])));
    CHECK(report["verdict"] == truth["verdict"]);
    if (!kInexact.contains(id)) {
      check_exact(report, truth);
      ++exact;
      continue;
    }
    REQUIRE(truth["verdict"] == "fits");
    CHECK(near(report["steady_peak"]["allocated"], truth["steps"].back()["peak"]["allocated"], 0.01));
    CHECK(near(report["steady_peak"]["reserved"], truth["steps"].back()["peak"]["reserved"], 0.02));
  }
  CHECK(exact * 100 >= rows.size() * 98);
}

}  // namespace
}  // namespace whatfits
