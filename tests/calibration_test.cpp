// whatfits calibrate, and --calibration: what a measured run says of a card comes back into predictions, with its source.
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "support/cli.h"
#include "support/runs.h"
#include "whatfits/bytes.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

using nlohmann::json;
using testing::has;
using testing::refused;
using testing::run_cli;
using testing::written;

const std::string kSnapshots = WHATFITS_FIXTURES "/torch/snapshots/";
// The run of the snapshots (request.json there).
const std::string kRun =
    R"( --model '{"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 256, "n_head": 4, "vocab_size": 8000, "n_positions": 512}')"
    " --batch 8 --seq-len 512 --steps 4 --script.warmup-matmul 0";

json calibrated(const std::string& words) {
  const testing::Result result = run_cli("calibrate " + words + " --json");
  INFO(result.err);
  REQUIRE(result.status == 0);
  return json::parse(result.out);
}

TEST_CASE("A failure in a snapshot says what was free on the card", "[calibration]") {
  const json answer = calibrated(kSnapshots + "oom.pickle.gz");
  CHECK(answer.at("free_mib") == 4000);  // of the virtual device that it was recorded on
  CHECK(answer.at("extra_mib") == 0);
  CHECK(answer.at("from") == "measured: oom.pickle.gz");
  CHECK_FALSE(answer.contains("device"));
  CHECK_FALSE(calibrated(kSnapshots + "clean.pickle.gz").contains("free_mib"));
}

TEST_CASE("What a run holds beyond the prediction is set aside", "[calibration]") {
  CHECK(calibrated(kSnapshots + "clean.pickle.gz" + kRun).at("extra_mib") == 0);
  const json kept = calibrated(kSnapshots + "kept-logits.pickle.gz" + kRun);
  const json compared = json::parse(run_cli("compare " + kSnapshots + "kept-logits.pickle.gz" + kRun + " --json").out);
  const auto extra =
      compared.at("measured_peak").at("allocated").get<std::int64_t>() - compared.at("predicted_peak").at("allocated").get<std::int64_t>();
  // At least the logits of one step, 8 x 512 x 8000 in fp32.
  CHECK(extra >= std::int64_t{8} * 512 * 8000 * 4);
  CHECK(kept.at("measurements")[0].at("extra_bytes") == extra);
  CHECK(kept.at("extra_mib") == (extra + static_cast<std::int64_t>(MiB) - 1) / static_cast<std::int64_t>(MiB));
  // Of several files the least that was free and the most that was extra.
  const json both = calibrated(kSnapshots + "clean.pickle.gz " + kSnapshots + "kept-logits.pickle.gz" + kRun);
  CHECK(both.at("extra_mib") == kept.at("extra_mib"));
  CHECK(both.at("measurements").size() == 2);
  CHECK(both.at("device") == "NVIDIA A40");
}

TEST_CASE("A calibration comes back into every answer, with its source", "[calibration]") {
  const std::string file = (testing::scratch() / "card.json").string();
  const testing::Result made = run_cli("calibrate " + kSnapshots + "kept-logits.pickle.gz" + kRun + " --out " + file);
  CHECK(made.status == 0);
  CHECK(has(made.out, "--calibration"));
  const json answer = json::parse(run_cli("fit --model gpt2-from-scratch --seq-len 1024 --json --calibration " + file).out);
  CHECK(answer.at("request").at("calibration").at("from") == "measured: kept-logits.pickle.gz");
  CHECK(has(answer.at("assumptions").dump(), "set aside for what a measured run held at its peak beyond the prediction: measured: kept"));
  // As if the card had that much less.
  const std::int64_t free = 45440 - json::parse(testing::text_of(file)).at("extra_mib").get<std::int64_t>();
  const json less =
      json::parse(run_cli("fit --model gpt2-from-scratch --seq-len 1024 --json --device "
                          R"('{"name": "NVIDIA A40", "total_mib": 46068, "compute_capability": "8.6", "sm_count": 84, "free_mib": )" +
                          std::to_string(free) + "}'")
                      .out);
  CHECK(answer.at("largest_batch") == less.at("largest_batch"));
  CHECK(answer.at("peak") == less.at("peak"));
  CHECK(answer.at("request").at("device") == "a40");  // what it has is as it was, the reserve apart
}

TEST_CASE("A request with a calibration reads back as the same", "[calibration]") {
  const Config config = testing::config_of(std::string(
      R"({"model": "gpt2", "device": "t4", "calibration": {"free_mib": 14000, "extra_mib": 300, "reserved_per_mille": 1080, "from": "here"}})"));
  CHECK(config.device.free_mib == 13700);
  CHECK(config.calibration->reserved_per_mille == 1080);
  CHECK(testing::config_of(request_json(config).dump()) == config);
}

TEST_CASE("The closed form takes the measured ratio of reserved to allocated", "[calibration]") {
  const json plain = json::parse(run_cli("estimate --model gpt2-from-scratch --engine formula --json").out);
  const json doubled = json::parse(
      run_cli(R"(estimate --model gpt2-from-scratch --engine formula --json --calibration '{"reserved_per_mille": 2000}')").out);
  CHECK(doubled.at("peak").at("allocated") == plain.at("peak").at("allocated"));
  CHECK(doubled.at("peak").at("reserved").get<Bytes>() == 2 * plain.at("peak").at("allocated").get<Bytes>());
}

TEST_CASE("Wrong calibrations and measurements are refused in a line", "[calibration]") {
  const std::string fit = "fit --model gpt2 --calibration ";
  refused(fit + R"('{"extra_mib": -1}')", "calibration.extra_mib: \"-1\" is not allowed: must be a whole number from 0 to 1073741824");
  refused(fit + R"('{"extra_mib": 50000}')", "calibration.extra_mib: \"50000\" is not allowed: must be below what is free (45440)");
  refused(fit + R"('{"free_mib": 50000}')",
          "calibration.free_mib: \"50000\" is not allowed: must be at most the device's total_mib (46068)");
  refused(fit + R"('{"device": "NVIDIA H100"}')", "calibration.device: \"NVIDIA H100\" is not allowed: the request is of NVIDIA A40");
  refused(fit + "7", "calibration: \"7\" is not allowed: must be null or what whatfits calibrate wrote");
  refused("calibrate " + written("other.json", "{}").string(),
          written("other.json", "{}").string() +
              ": is neither what whatfits measure wrote (\"schema\": \"whatfits-fixture\") nor a published sweep (\"kind\": \"published\", "
              "with \"figures\")");
  refused("calibrate",
          "FILES: name at least one snapshot of torch.cuda.memory._dump_snapshot(), what whatfits measure wrote, or a published sweep");
}

TEST_CASE("A fixture of the measuring tool says the ratio, and of a card what was free", "[calibration]") {
  const std::string cpu = WHATFITS_FIXTURES "/native/gpt2-124m-fp32-b4-t64.json";
  const json answer = calibrated(cpu);
  const json fixture = testing::read_json(cpu);
  const json& peak = fixture.at("counters").at("peak");
  CHECK(answer.at("reserved_per_mille") == peak.at("reserved").get<Bytes>() * 1000 / peak.at("allocated").get<Bytes>());
  CHECK_FALSE(answer.contains("free_mib"));  // a processor's memory is no card's
  json card = fixture;                       // as native/src/measure/fixture.cpp writes a card's
  card["device"] = {{"on", "cuda"}, {"name", "Some card"}, {"processors", 2}};
  card["card"] = {
      {"total", 1000 * MiB},
      {"reconciliation",
       {{"context", 100 * MiB}, {"cublas", 20 * MiB}, {"kernels", 3 * MiB}, {"scratch", 0}, {"segments", 0}, {"residual", -MiB}}}};
  const json of_card = calibrated(written("card-run.json", card.dump()).string());
  CHECK(of_card.at("free_mib") == 877);
  CHECK(of_card.at("device") == "Some card");
}

TEST_CASE("A published sweep says the ratio with its spread, and what was free", "[calibration]") {
  const std::string sweep = WHATFITS_FIXTURES "/published/gpt2-a40.json";
  const json answer = calibrated(sweep);
  CHECK(answer.at("device") == "NVIDIA A40");
  CHECK(answer.at("free_mib") == 45440);  // printed, before the run
  CHECK(answer.at("extra_mib") == 0);     // each peak is predicted to its printed digit
  // Printed, in MiB: 36,072 of 32,611, 40,504 of 36,489 and 44,948 of 40,375; batch 8 has no reserved figure.
  CHECK(answer.at("reserved_per_mille") == 1110);
  CHECK(answer.at("reserved_per_mille_spread") == json{{"runs", 3}, {"tenth", 1106}, {"ninetieth", 1113}});
  const json& rows = answer.at("measurements");
  REQUIRE(rows.size() == 4);
  CHECK(rows[0].at("what") == "batch 8 of a published sweep");
  CHECK(rows[0].at("reserved").is_null());
  CHECK(rows[3].at("reserved").get<Bytes>() == 44948 * MiB);
  for (const json& row : rows) CHECK(row.at("extra_bytes") == 0);

  // It comes back: the closed form reserves what the sweep's runs did.
  const std::string file = (testing::scratch() / "a40.json").string();
  const testing::Result made = run_cli("calibrate " + sweep + " --out " + file);
  CHECK(made.status == 0);
  CHECK(has(made.out, "reserved over allocated 1.110 in the median of 3 (1.106 to 1.113, "));
  const json formula = json::parse(run_cli("estimate --model gpt2-from-scratch --engine formula --json --calibration " + file).out);
  CHECK(formula.at("request").at("calibration").at("reserved_per_mille") == 1110);
  CHECK(formula.at("request").at("calibration").at("from") == "measured: gpt2-a40.json");
  // 20 sequences ran and 21 did not.
  const json fit = json::parse(run_cli("fit --model gpt2-from-scratch --seq-len 1024 --json --calibration " + file).out);
  CHECK(fit.at("largest_batch") == 20);
}

TEST_CASE("What a sweep's printed digits do not hide counts as extra, and broken sweeps are refused", "[calibration]") {
  const json sweep = testing::read_json(WHATFITS_FIXTURES "/published/gpt2-a40.json");
  const auto with = [&](const char* id, const char* key, const json& value) {
    json changed = sweep;
    for (json& figure : changed["figures"]) {
      if (figure.at("id") == id) figure[key] = value;
    }
    return written("sweep.json", changed.dump()).string();
  };
  const json predicted = json::parse(run_cli("estimate --model gpt2-from-scratch --batch 16 --seq-len 1024 --json").out);
  const std::int64_t more = predicted.at("peak").at("allocated").get<std::int64_t>() + 10 * static_cast<std::int64_t>(MiB);
  const json beyond = calibrated(with("batch16_allocated", "bytes", more));
  CHECK(beyond.at("extra_mib") == 10);
  CHECK(beyond.at("measurements")[1].at("extra_bytes") == 10 * MiB);
  const std::string zero = with("batch16_allocated", "bytes", 0);
  refused("calibrate " + zero, zero + ": batch16_allocated: its bytes are out of range");
  const std::string none = with("batch16_allocated", "batch", nullptr);
  refused("calibrate " + none, none + ": is no sweep as fixtures/published/README.md describes it");
  json changed = sweep;
  changed["device"]["name"] = "Some card";
  const std::string card = written("sweep.json", changed.dump()).string();
  refused("calibrate " + card, card + ": device.name: is none that whatfits devices lists");
  changed = sweep;
  changed["figures"] = json::array();
  const std::string empty = written("sweep.json", changed.dump()).string();
  refused("calibrate " + empty, empty + ": has no highest allocated or reserved level of a run among its figures");
}

}  // namespace
}  // namespace whatfits
