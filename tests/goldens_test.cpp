// Hashes of programs and traces as they were when someone last looked (fixtures/goldens.json), so that no change of either goes
// unseen. They say "changed", not "wrong": what is right, the recorded runs of PyTorch say (fixtures_test.cpp, torch_trace_test.cpp).
// After a change on purpose, with those tests green, run
//   WHATFITS_UPDATE_GOLDENS=1 build/release/tests/whatfits_tests "[goldens]"
// which writes the file anew, and say in the commit why the hashes moved.
#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "support/runs.h"
#include "whatfits/estimate.h"
#include "whatfits/presets.h"

namespace whatfits {
namespace {

using Json = nlohmann::ordered_json;

const std::string kPath = WHATFITS_FIXTURES "/goldens.json";

/// Each preset of the model from scratch as it is, the first of each of Hugging Face's model types, and GPT-2 small with each switch that
/// changes the program.
std::vector<Json> requests() {
  std::vector<Json> list;
  std::set<std::string> types;
  for (const ModelPreset& preset : model_presets()) {
    const bool first = types.insert(preset.config.model_type).second;
    if (!first && preset.config.model_type != "gpt2-from-scratch") continue;
    list.push_back({{"model", preset.id}, {"batch", 1}, {"device", "h100"}});
  }
  const std::vector<Json> changes = {{{"precision", "bf16"}},
                                     {{"precision", "amp-bf16"}},
                                     {{"precision", "amp-fp16"}},
                                     {{"attention", "sdpa"}},
                                     {{"attention", "sdpa-math"}},
                                     {{"attention", "sdpa-flash"}, {"precision", "bf16"}},
                                     {{"optimizer", "adamw-fused"}},
                                     {{"optimizer", "adamw-for-loop"}},
                                     {{"optimizer", "sgd"}},
                                     {{"optimizer", "sgd-momentum"}},
                                     {{"checkpointing", "full"}},
                                     {{"checkpointing", "full"}, {"precision", "amp-bf16"}, {"attention", "sdpa"}},
                                     {{"checkpointing", "selective"}, {"precision", "amp-bf16"}, {"attention", "sdpa"}},
                                     {{"grad_accumulation", 4}},
                                     {{"clip_grad_norm", true}},
                                     {{"zero_grad", "zero-fill"}},
                                     {{"allocator", {{"expandable_segments", true}}}},
                                     {{"batch", 21}}};
  for (const Json& change : changes) {
    Json request = {{"model", "gpt2-from-scratch"}, {"batch", 4}, {"seq_len", 1024}, {"device", "a40"}};
    request.update(change);
    list.push_back(std::move(request));
  }
  return list;
}

Json golden_of(const Json& request) {
  const Report report = estimate(testing::config_of(request.dump()));
  return {{"request", request}, {"program_hash", report.program_hash}, {"trace_hash", report.trace_hash}};
}

void write_goldens() {
  std::ofstream out(kPath);
  out << "{\n  \"what\": \"First 16 hex digits of SHA-256 of programs and traces; refreshed as tests/goldens_test.cpp says. Predictions, "
         "not measurements.\",\n  \"rows\": [\n";
  const std::vector<Json> list = requests();
  for (std::size_t i = 0; i < list.size(); ++i) out << "    " << golden_of(list[i]).dump() << (i + 1 < list.size() ? ",\n" : "\n");
  out << "  ]\n}\n";
}

TEST_CASE("programs and traces have not changed unseen", "[goldens]") {
  if (std::getenv("WHATFITS_UPDATE_GOLDENS") != nullptr) write_goldens();
  const nlohmann::json goldens = testing::read_json(kPath);
  const std::vector<Json> list = requests();
  REQUIRE(goldens["rows"].size() == list.size());
  for (std::size_t i = 0; i < list.size(); ++i) {
    INFO(list[i].dump());
    const nlohmann::json golden = golden_of(list[i]);
    CHECK(golden["request"] == goldens["rows"][i]["request"]);
    CHECK(golden["program_hash"] == goldens["rows"][i]["program_hash"]);
    CHECK(golden["trace_hash"] == goldens["rows"][i]["trace_hash"]);
  }
}

TEST_CASE("the goldens' traces are all different", "[goldens]") {
  std::set<std::string> traces;
  const nlohmann::json goldens = testing::read_json(kPath);
  for (const nlohmann::json& row : goldens["rows"]) traces.insert(row["trace_hash"].get<std::string>());
  CHECK(traces.size() == goldens["rows"].size());
}

}  // namespace
}  // namespace whatfits
