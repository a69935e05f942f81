// whatfits accuracy from outside: what it prints of a folder of fixtures, and of one that is none.
#include <catch2/catch_test_macros.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "support/cli.h"

namespace {

using namespace whatfits::testing;
using nlohmann::json;
namespace fs = std::filesystem;

/// A folder with the published files, and the first rows of the recorded ones, so that a run takes a second.
fs::path small_fixtures() {
  const fs::path folder = scratch() / "fixtures";
  fs::remove_all(folder);
  for (const char* part : {"torch", "native", "published"}) fs::create_directories(folder / part);
  const fs::path whole = WHATFITS_FIXTURES;
  for (const char* file : {"gpt2-a40.json", "others.json", "requests.json"})
    fs::copy_file(whole / "published" / file, folder / "published" / file);
  fs::copy_file(whole / "torch/inexact.json", folder / "torch/inexact.json");
  fs::copy_file(whole / "native/gpt2-124m-fp32-b4-t64.json", folder / "native/gpt2-124m-fp32-b4-t64.json");
  std::ifstream from(whole / "torch/gpt2-from-scratch.jsonl");
  std::ofstream to(folder / "torch/gpt2-from-scratch.jsonl");
  std::string line;
  for (int i = 0; i < 3 && std::getline(from, line); ++i) to << line << '\n';
  return folder;
}

void write(const fs::path& path, const std::string& text) { std::ofstream(path) << text; }

}  // namespace

TEST_CASE("accuracy sums up a folder of fixtures", "[cli][accuracy]") {
  const std::string words = "accuracy --fixtures " + small_fixtures().string();
  const Result text = run_cli(words);
  INFO(text.err);
  CHECK(text.status == 0);
  CHECK(has(first_line(text.out), " counters of 5 measurements are predicted to the byte"));
  for (const char* part : {"torch/gpt2-from-scratch", "published/gpt2-a40", "Other tools' formulas on the same rows",
                           "Runs of others on real cards", "by nvidia-smi", "Runs that were published for running out of memory",
                           "Not right yet, and not compared", "runs that others published have no prediction"}) {
    INFO(part);
    CHECK(has(text.out, part));
  }

  const Result answer = run_cli(words + " --json");
  CHECK(answer.status == 0);
  const json all = json::parse(answer.out);
  REQUIRE(all.at("groups").size() == 3);
  for (const json& group : all.at("groups")) {
    INFO(group.dump());
    CHECK(group.at("wrong") == 0);
    CHECK(group.at("exact").get<int>() + group.at("within_tolerance").get<int>() == group.at("counters").get<int>());
  }
  CHECK(all.at("groups")[2].at("group") == "torch/gpt2-from-scratch");
  CHECK(all.at("groups")[2].at("runs") == 3);
  CHECK(all.at("groups")[2].at("within_tolerance") == 0);  // PyTorch's counters are exact or wrong
  // The sweep has four batches that ended; each tool has a ratio for each.
  CHECK(all.at("formulas").at("tools")[0].at("name") == "whatfits");
  for (const json& tool : all.at("formulas").at("tools")) CHECK(tool.at("published_by_batch").size() == 4);
  // Every published run is predicted or has a reason.
  std::size_t rows = all.at("others").at("rows").size();
  for (const json& reason : all.at("others").at("not_covered")) rows += reason.at("rows").get<std::size_t>();
  CHECK(rows == all.at("others").at("published"));
}

TEST_CASE("accuracy says what is wrong, and ends with 1", "[cli][accuracy]") {
  const fs::path folder = small_fixtures();
  const fs::path file = folder / "torch/gpt2-from-scratch.jsonl";
  json row = json::parse(first_line(text_of(file)));
  json& counter = row.at("truth").at("steps")[0].at("peak").at("allocated");
  counter = counter.get<std::int64_t>() + 512;
  row["id"] = "planted";
  write(file, row.dump() + "\n");
  const std::string words = "accuracy --fixtures " + folder.string();
  const Result text = run_cli(words);
  CHECK(text.status == 1);
  CHECK(has(text.out, "torch/gpt2-from-scratch: planted: not known before: something has changed"));
  const Result answer = run_cli(words + " --json");
  CHECK(answer.status == 1);
  CHECK(json::parse(answer.out).at("groups")[2].at("wrong_runs") == json{"torch/gpt2-from-scratch: planted"});
  // Known ones are said with their cause, and are no news.
  write(folder / "torch/inexact.json", R"({"planted": "by this test"})");
  const Result known = run_cli(words);
  CHECK(known.status == 0);
  CHECK(has(known.out, "torch/gpt2-from-scratch: planted: by this test"));
}

TEST_CASE("accuracy of a folder that is missing or broken is refused in a line", "[cli][accuracy]") {
  const fs::path folder = small_fixtures();
  const std::string words = "accuracy --fixtures " + folder.string();
  const std::string start = "--fixtures: " + folder.string() + ": is no folder of fixtures: ";
  refused("accuracy --fixtures nowhere", "--fixtures: nowhere: is no folder of fixtures: it has no folder torch");
  refused("accuracy --fixtures " + (folder / "torch/inexact.json").string(),
          "--fixtures: " + (folder / "torch/inexact.json").string() + ": is no folder of fixtures: it has no folder torch");
  const auto broken = [&](const char* file, const std::string& text, const std::string& reason) {
    const std::string whole = text_of(folder / file);
    write(folder / file, text);
    refused(words, start + reason);
    write(folder / file, whole);
  };
  broken("torch/inexact.json", "[", "torch/inexact.json: is no JSON");
  broken("torch/gpt2-from-scratch.jsonl", "\n{}\n", "torch/gpt2-from-scratch.jsonl, line 2: key 'id' not found");
  broken("published/gpt2-a40.json", "{}", "published/gpt2-a40.json: key 'device' not found");
  broken("published/others.json", "{}", "published/others.json: key 'points' not found");
  broken("published/requests.json", "{}", "published/requests.json: key 'requests' not found");
  broken("native/gpt2-124m-fp32-b4-t64.json", "{}", "native/gpt2-124m-fp32-b4-t64.json: key 'counters' not found");
  fs::remove(folder / "published/others.json");
  refused(words, start + "published/others.json: cannot be read");
}
