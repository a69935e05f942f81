// whatfits compare with the JSON of a report or of whatfits measure: counters beside counters.
#include <zlib.h>

#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "support/cli.h"
#include "support/runs.h"
#include "whatfits/bytes.h"

namespace whatfits {
namespace {

using nlohmann::json;
using testing::has;
using testing::refused;
using testing::run_cli;
using testing::written;

const std::string kRun = "--model gpt2-from-scratch --batch 2 --seq-len 256";

std::string report_file() { return written("report.json", run_cli("estimate " + kRun + " --json").out).string(); }

}  // namespace

TEST_CASE("a report is as predicted by its own request, and by no other", "[cli][compare]") {
  const std::string file = report_file();
  const testing::Result same = run_cli("compare " + file);
  INFO(same.err);
  CHECK(same.status == 0);
  CHECK(testing::first_line(same.out) == "As predicted: gpt2-from-scratch, batch 2 × 256 tokens, fp32, adamw");

  const testing::Result other = run_cli("compare " + file + " --model gpt2-from-scratch --batch 3 --seq-len 256 --json");
  CHECK(other.status == 1);
  const json answer = json::parse(other.out);
  CHECK(answer.at("verdict") == "differs");
  CHECK(answer.at("what") == "a report");
  CHECK(answer.at("request").at("batch") == 3);
  const json in_file = testing::read_json(file);
  const json predicted = json::parse(run_cli("estimate --model gpt2-from-scratch --batch 3 --seq-len 256 --json").out);
  // Three readings before the steps, six of each of three, and the highest of all.
  REQUIRE(answer.at("readings").size() == 3 + 3 * 6 + 1);
  const json& peak = answer.at("readings").back();
  for (const char* counter : {"allocated", "reserved"}) {
    CHECK(peak.at("file").at(counter) == in_file.at("peak").at(counter));
    CHECK(peak.at("predicted").at(counter) == predicted.at("peak").at(counter));
  }
  CHECK(answer.at("readings")[1].at("at") == "after model");
  CHECK(answer.at("readings")[1].at("differs") == false);  // the model is the same
  CHECK(answer.at("readings")[4].at("at") == "step 1, after forward");
  CHECK(answer.at("readings")[4].at("differs") == true);
  CHECK(run_cli("compare " + file + " --model gpt2-from-scratch --batch 3 --seq-len 256 --tolerance 100000").status == 0);
  // Without a model the flags change the file's own request.
  CHECK(run_cli("compare " + file + " --batch 3 --json").out == other.out);
}

TEST_CASE("a counter that moved, and one that is missing, differ", "[cli][compare]") {
  const json report = testing::read_json(report_file());
  json moved = report;
  json& counter = moved.at("steps")[1].at("after_backward").at("allocated");
  counter = counter.get<Bytes>() + MiB + 512;
  const testing::Result by_more = run_cli("compare " + written("moved.json", moved.dump()).string());
  CHECK(by_more.status == 1);
  CHECK(has(by_more.out, "step 2, after backward"));
  CHECK_FALSE(has(by_more.out, "step 2, after forward"));
  counter = counter.get<Bytes>() - 512;  // a MiB is allowed
  CHECK(run_cli("compare " + written("moved.json", moved.dump()).string()).status == 0);
  json missing = report;
  missing.at("steps")[2].erase("peak");
  CHECK(run_cli("compare " + written("missing.json", missing.dump()).string()).status == 1);
  json verdict = report;
  verdict["verdict"] = "oom";
  const testing::Result failed = run_cli("compare " + written("verdict.json", verdict.dump()).string());
  CHECK(failed.status == 1);
  CHECK(has(failed.out, "The file says oom, the prediction fits"));
}

TEST_CASE("what whatfits measure wrote is compared, and gzip is read", "[cli][compare]") {
  const json answer = json::parse(run_cli("compare " WHATFITS_FIXTURES "/native/gpt2-124m-fp32-b4-t64.json --json --tolerance 0").out);
  CHECK(answer.at("what") == "a run of whatfits measure");
  CHECK(answer.at("verdict") == "as predicted");  // to the byte
  const std::string text = testing::text_of(report_file());
  const std::string packed = (testing::scratch() / "report.json.gz").string();
  gzFile to = gzopen(packed.c_str(), "wb");
  REQUIRE(gzwrite(to, text.data(), static_cast<unsigned>(text.size())) == static_cast<int>(text.size()));
  REQUIRE(gzclose(to) == Z_OK);
  CHECK(run_cli("compare " + packed).status == 0);
}

TEST_CASE("other JSON is refused in a line", "[cli][compare]") {
  const auto file = [](const std::string& text) { return written("other.json", text).string(); };
  const std::string name = file("{}");
  const std::string other =
      name +
      ": is JSON, but neither a report (whatfits estimate --json) nor what whatfits measure wrote; compare also takes "
      "snapshots of torch.cuda.memory._dump_snapshot()";
  refused("compare " + file("{}"), other);
  const std::string sweep = WHATFITS_FIXTURES "/published/gpt2-a40.json";
  refused("compare " + sweep, sweep + other.substr(name.size()));
  refused("compare " + file("{\"a\": "), name + ": is neither JSON nor a snapshot of torch.cuda.memory._dump_snapshot()");
  std::string deep;
  for (int i = 0; i < 100000; ++i) deep += "{\"a\":";
  refused("compare " + file(deep + "1" + std::string(100000, '}')), name + ": is JSON nested deeper than any report");
  json report = testing::read_json(report_file());
  report["steps"] = json::array();
  refused("compare " + file(report.dump()), name + ": has no steps: a closed form says no counters after a phase");
  report["steps"] = 3;
  refused("compare " + file(report.dump()), name + ": is not as whatfits estimate --json writes it");
  report = testing::read_json(report_file());
  report["peak"]["allocated"] = -1;
  refused("compare " + file(report.dump()), name + ": is not as whatfits estimate --json writes it");
  report["request"]["batch"] = -1;
  refused("compare " + file(report.dump()), name + ": its request: batch: \"-1\" is not allowed: must be a whole number from 1 to 1048576");
  refused("snapshot " + report_file(), report_file() +
                                           ": is JSON: this command shows recordings of torch.cuda.memory._dump_snapshot(); whatfits "
                                           "compare takes reports and what whatfits measure wrote");
}

}  // namespace whatfits
