// The command line from outside: the binary is run, and what it says, writes and returns is looked at.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "support/cli.h"

namespace {

using namespace whatfits::testing;

namespace fs = std::filesystem;
using nlohmann::json;

const std::string kRun = "--model gpt2-from-scratch --batch 8 --device a40";

}  // namespace

TEST_CASE("fit answers the question of the measured article", "[cli][golden]") {
  const Result result = run_cli("fit --model gpt2-from-scratch --seq-len 1024 --device a40");
  CHECK(result.status == 0);
  CHECK(result.err.empty());
  CHECK(first_line(result.out) == "Largest batch: 20 (sequences of 1,024 tokens) on NVIDIA A40");
  CHECK(has(result.out, "allocated  40,375.3 MiB"));
  CHECK(has(result.out, "reserved   44,948.0 MiB"));
  CHECK(has(result.out, "free       45,440.0 MiB"));
  CHECK(has(result.out, "step 2, backward, log_softmax_backward, which asks for 3.83 GiB"));
  CHECK(has(result.out, "Batch 21 runs out of memory in step 2, backward, log_softmax_backward"));
  CHECK(has(result.out, "It asks for 4.03 GiB"));
  CHECK(has(result.out, "Bound by reserved"));
  CHECK(has(result.out, "from step 2 on every step repeats the one before"));
  CHECK(has(result.out, "whatfits advise --model gpt2-from-scratch --seq-len 1024 --device a40 --batch 21"));
  CHECK_FALSE(has(result.out, "\x1b"));
}

TEST_CASE("fit as JSON", "[cli]") {
  const Result result = run_cli("fit --model gpt2-from-scratch --seq-len 1024 --device a40 --json");
  CHECK(result.status == 0);
  const json answer = json::parse(result.out);
  CHECK(answer.at("largest_batch") == 20);
  CHECK(answer.at("first_failure").at("step") == 2);
  CHECK(answer.at("first_failure").at("op") == "log_softmax_backward");
  CHECK(answer.at("bound_by") == "reserved");
}

TEST_CASE("exit status says whether it fits", "[cli]") {
  CHECK(run_cli("estimate " + kRun).status == 0);
  CHECK(run_cli("estimate --model gpt2-from-scratch --batch 21").status == 1);
  CHECK(run_cli("estimate --model gpt2-from-scratch --batch 21 --json").status == 1);
  const std::string tiny = R"('{"total_mib":1500,"free_mib":1000,"compute_capability":"8.6","sm_count":84}')";
  const Result none = run_cli("fit --model gpt2-from-scratch --device " + tiny);
  CHECK(none.status == 1);
  CHECK(first_line(none.out) == "Not even one sequence of 1,024 tokens fits on custom device");
}

TEST_CASE("estimate's JSON is the report, and its request is a request again", "[cli]") {
  const Result first = run_cli("estimate " + kRun + " --json");
  REQUIRE(first.status == 0);
  const json report = json::parse(first.out);
  CHECK(report.at("verdict") == "fits");
  std::uint64_t sum = 0;
  for (const auto& [category, bytes] : report.at("categories").items()) sum += bytes.get<std::uint64_t>();
  CHECK(sum == report.at("peak").at("allocated"));
  const Result second = run_cli("estimate - --json", report.at("request").dump());
  CHECK(second.out == first.out);
}

TEST_CASE("a request file, standard input and flags are one language", "[cli]") {
  written("request.json", R"({"model": "gpt2-from-scratch", "batch": 4, "script": {"warmup_matmul": 0}})");
  const auto request = [](const std::string& words, const std::string& input = "") {
    const Result result = run_cli("estimate --json " + words, input);
    INFO(result.err);
    REQUIRE(result.status == 0);
    return json::parse(result.out).at("request");
  };
  CHECK(request("request.json").at("batch") == 4);
  CHECK(request("request.json --batch 2").at("batch") == 2);
  CHECK(request("request.json --batch=2").at("script").at("warmup_matmul") == 0);
  CHECK(request("- --batch 3", text_of(scratch() / "request.json")).at("batch") == 3);
  CHECK(request("request.json --script.warmup-matmul 16").at("script").at("warmup_matmul") == 16);
  CHECK(request("request.json --allocator.expandable-segments true").at("allocator").at("expandable_segments") == true);
  CHECK(request("request.json --allocator.expandable-segments --batch 2").at("allocator").at("expandable_segments") == true);
  CHECK(request("--clip-grad-norm request.json").at("clip_grad_norm") == true);
  CHECK(request("--clip-grad-norm false request.json").at("clip_grad_norm") == false);
  CHECK(request(R"(request.json --allocator '{"expandable_segments": true}')").at("allocator").at("expandable_segments") == true);
  written("small.json", R"({"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 128, "n_head": 2})");
  CHECK(request("--model small.json").at("model").at("n_layer") == 2);
  written("wrong.json", R"({"model": "gpt2-from-scratch", "batch": 0})");
  CHECK(request("wrong.json --batch 1").at("batch") == 1);
}

TEST_CASE("wrong requests name key, value and what is allowed", "[cli]") {
  refused("estimate --model gpt2-from-scratch --batch -3", "batch: \"-3\" is not allowed: must be a whole number from 1 to 1048576");
  refused("estimate --model gpt2-from-scratch --batch many", "batch: \"many\" is not allowed: must be a whole number from 1 to 1048576");
  refused("estimate --model gpt2-from-scratch --precision fp23",
          "precision: \"fp23\" is not allowed: must be one of fp32, bf16, amp-bf16, amp-fp16 or fp16; did you mean fp32?");
  refused("estimate --model gpt2-from-scratch --allocator 5", "allocator: \"5\" is not allowed: must be an object");
  refused("estimate --model gpt2-from-scratch --clip-grad-norm 1.0", "clip_grad_norm: \"1.0\" is not allowed: must be true or false");
  CHECK(has(run_cli("estimate --model llama2-7b").err, "did you mean llama-2-7b?"));
  CHECK(has(run_cli("estimate --model gpt2 --device rtx3060").err, "did you mean rtx-3060"));
  refused("estimate --model gpt2-from-scratch --steps 99", "steps: \"99\" is not allowed: must be a whole number from 1 to 64");
  const Result several = run_cli("fit --model gpt2-from-scratch --batch 0 --steps 0");
  CHECK(several.status == 2);
  CHECK(has(several.err, "batch: \"0\""));
  CHECK(has(several.err, "steps: \"0\""));
  const Result missing = run_cli("fit");
  CHECK(missing.status == 2);
  CHECK(has(missing.err, "model: is missing"));
}

TEST_CASE("words that are no command line", "[cli]") {
  refused("estimate --modle gpt2", "--modle: is not a flag of whatfits estimate; did you mean --model?");
  refused("estimate --model gpt2-from-scratch --wibble-wobble",
          "--wibble-wobble: is not a flag of whatfits estimate; see whatfits estimate --help");
  refused("estimate --batch", "--batch: needs a value");
  refused("estimate --batch 1 --batch 2", "--batch: is given more than once");
  refused("estimate a.json b.json", "estimate: one word too many: \"b.json\"");
  refused("devices now", "devices: one word too many: \"now\"");
  const Result command = run_cli("fitt");
  CHECK(command.status == 2);
  CHECK(has(command.err, "whatfits: command: \"fitt\" is not allowed: must be one of fit, estimate,"));
  CHECK(has(command.err, "did you mean fit?"));
  refused("fit --model gpt2-from-scratch --axis depth", "--axis: \"depth\" is not allowed: must be batch or seq-len");
  refused("timeline --model gpt2-from-scratch --step 9", "--step: \"9\" is not allowed: must be a whole number from 0 to 3");
  refused("ledger --model gpt2-from-scratch --at -1", "--at: \"-1\" is not allowed: must be a whole number from 0 to 18446744073709551615");
  refused("sweep --model gpt2-from-scratch --batches 5..1", "--batches: \"5..1\" is not allowed: the range 5..1 runs backwards");
  CHECK(has(run_cli("estimate $(printf '\\033[31m')").err, "?[31m"));  // nothing that a terminal would act on
}

TEST_CASE("files that cannot be read", "[cli]") {
  refused("estimate missing.json", "missing.json: cannot be read: No such file or directory");
  refused("estimate .", ".: cannot be read: Is a directory");
  refused("estimate --model gpt2-from-scratch --device .", ".: cannot be read: Is a directory");
  refused("estimate --model missing.json", "missing.json: cannot be read: No such file or directory");
  written("broken.json", "{\"model\": ");
  refused("estimate broken.json", "broken.json: is not valid JSON: it ends too early");
  written("twice.json", R"({"model": "gpt2-from-scratch", "batch": 1, "batch": 2})");
  refused("estimate twice.json", "twice.json: batch is given twice");
  refused("estimate -", "standard input: is empty; it must be a JSON object with at least \"model\"");
  written("large.json", std::string((1u << 20) + 1, ' '));
  refused("estimate large.json", "large.json: is larger than 1048576 bytes, the most that is read");
}

TEST_CASE("output that cannot be written", "[cli]") {
  if (fs::exists("/dev/full")) {
    const Result full = run_cli("devices >/dev/full");
    CHECK(full.status == 2);
    CHECK(full.err == "whatfits: standard output: cannot be written: No space left on device\n");
    CHECK(run_cli("timeline " + kRun + " --svg /dev/full").status == 2);
  }
  CHECK(run_cli("devices >&-").status == 2);
  const Result nowhere = run_cli("timeline " + kRun + " --svg no/such/folder.svg");
  CHECK(nowhere.status == 2);
  CHECK(nowhere.err == "whatfits: no/such/folder.svg: cannot be written: No such file or directory\n");
}

TEST_CASE("the picture stands alone and keeps the peak", "[cli]") {
  const Result result = run_cli("timeline " + kRun + " --svg step.svg");
  REQUIRE(result.status == 0);
  CHECK(result.out == "Wrote step.svg\n");
  const std::string svg = text_of(scratch() / "step.svg");
  CHECK(svg.size() < 60'000);
  CHECK(svg.rfind("<svg xmlns=\"http://www.w3.org/2000/svg\"", 0) == 0);
  CHECK(has(svg, "role=\"img\""));
  CHECK(has(svg, "<title id=\"t\">Memory of step 3"));
  CHECK(has(svg, "<desc id=\"d\">"));
  CHECK(has(svg, "prefers-color-scheme:dark"));
  CHECK(has(svg, "log_softmax_backward"));
  CHECK_FALSE(has(svg, "<script"));
  // Well-formed: every element that opens closes, in order.
  std::vector<std::string> open;
  for (std::size_t at = svg.find('<'); at != std::string::npos; at = svg.find('<', at + 1)) {
    const std::size_t end = svg.find('>', at);
    REQUIRE(end != std::string::npos);
    const std::string tag = svg.substr(at + 1, end - at - 1);
    if (tag.back() == '/') continue;
    if (tag.front() == '/') {
      REQUIRE_FALSE(open.empty());
      CHECK(open.back() == tag.substr(1));
      open.pop_back();
    } else {
      open.push_back(tag.substr(0, tag.find(' ')));
    }
  }
  CHECK(open.empty());
  for (const auto& entry : fs::directory_iterator(scratch())) CHECK_FALSE(has(entry.path().filename().string(), "step.svg."));
  CHECK(run_cli("timeline " + kRun + " --svg -").out == svg);
  // Everything that is asked for is written, and a symbolic link goes on naming its file.
  fs::create_symlink("step.svg", scratch() / "link.svg");
  const Result both = run_cli("timeline " + kRun + " --svg link.svg --pickle step.pickle --step 1");
  CHECK(both.out == "Wrote step.pickle\nWrote link.svg\n");
  CHECK(fs::is_symlink(scratch() / "link.svg"));
  CHECK(has(text_of(scratch() / "step.svg"), "Memory of step 1"));
  CHECK(fs::exists(scratch() / "step.pickle"));
}

TEST_CASE("the plot in the terminal", "[cli]") {
  const Result result = run_cli("timeline " + kRun);
  CHECK(result.status == 0);
  CHECK(has(result.out, "█"));
  CHECK(has(result.out, "▼ peak 17,053.9"));
  CHECK(has(result.out, "forward"));
  CHECK(has(result.out, "backward"));
  CHECK_FALSE(has(result.out, "\x1b"));
  const json data = json::parse(run_cli("timeline " + kRun + " --step 1 --json").out);
  CHECK(data.at("step") == 1);
  CHECK(data.at("events").size() > 100);
}

TEST_CASE("the ledger sums up", "[cli]") {
  const Result grouped = run_cli("ledger " + kRun);
  CHECK(grouped.status == 0);
  CHECK(has(grouped.out, "layers 0..11"));
  CHECK(has(grouped.out, "B·NH·T²·4"));
  const Result every = run_cli("ledger " + kRun + " --all");
  CHECK(std::count(every.out.begin(), every.out.end(), '\n') > 2 * std::count(grouped.out.begin(), grouped.out.end(), '\n'));
  const json ledger = json::parse(run_cli("ledger " + kRun + " --json").out);
  std::uint64_t sum = 0;
  for (const auto& row : ledger.at("ledger")) sum += row.at("bytes").get<std::uint64_t>();
  CHECK(sum == ledger.at("allocated"));
  CHECK(json::parse(run_cli("ledger " + kRun + " --at 100 --json").out).at("at").at("event") == 100);
  const Result late = run_cli("ledger " + kRun + " --at 999999999");
  CHECK(late.status == 2);
  CHECK(has(late.err, "--at: \"999999999\" is past the last event, "));
}

TEST_CASE("sweeps", "[cli]") {
  const json cells = json::parse(run_cli("sweep --model gpt2-from-scratch --batches 8,20..21 --seq-lens 512,1024 --json").out);
  REQUIRE(cells.size() == 6);
  CHECK(cells[0].at("batch") == 8);
  CHECK(cells[0].at("seq_len") == 512);
  CHECK(cells[3].at("verdict") == "fits");
  CHECK(cells[5].at("verdict") == "oom");
  const Result table = run_cli("sweep --model gpt2-from-scratch --batches 8,20..21");
  CHECK(table.status == 0);
  CHECK(has(table.out, "43.89 !"));
  CHECK(has(table.out, "oom"));
  const Result formula = run_cli("sweep --model gpt2-from-scratch --batches 40 --engine formula");
  CHECK(has(formula.out, "oom"));
  CHECK_FALSE(has(formula.out, "drifts"));
  const json cards = json::parse(run_cli("sweep --model gpt2-from-scratch --devices a40,t4 --json").out);
  REQUIRE(cards.size() == 2);
  CHECK(cards[0].at("largest_batch") == 20);
  CHECK(cards[1].at("largest_batch") < 20);
  CHECK(run_cli("sweep --model gpt2-from-scratch --devices a40,t44").status == 2);
  CHECK(run_cli("sweep --model gpt2-from-scratch --seq-lens 4096").status == 2);
}

// Real PyTorch runs this batch, too, with allocation retries and `reserved` creeping up from step to step.
TEST_CASE("a run that never repeats is told from one that runs out of memory", "[cli]") {
  const std::string run = "--model gpt2-from-scratch --allocator.expandable-segments true";
  const json answer = json::parse(run_cli("fit " + run + " --json").out);
  CHECK(answer.at("largest_batch") == 21);
  CHECK(answer.at("first_failure") == nullptr);
  CHECK(answer.at("drifts") == true);
  CHECK(has(run_cli("fit " + run).out, "does not settle"));
  CHECK(json::parse(run_cli("sweep " + run + " --batches 22 --json").out)[0].at("verdict") == "drifts");
}

TEST_CASE("a measured snapshot, alone and beside its prediction", "[cli]") {
  const std::string folder = WHATFITS_FIXTURES "/torch/snapshots/";
  const std::string request = " " + folder + "request.json";
  const Result clean = run_cli("compare " + folder + "clean.pickle.gz" + request);
  CHECK(clean.status == 0);
  CHECK(has(clean.out, "As predicted"));
  const Result kept = run_cli("compare " + folder + "kept-logits.pickle.gz" + request);
  CHECK(kept.status == 1);
  CHECK(has(kept.out, "logits: alive after their step"));
  CHECK(run_cli("compare " + folder + "kept-logits.pickle.gz" + request + " --tolerance 1000").status == 0);
  const json answer = json::parse(run_cli("compare " + folder + "kept-logits.pickle.gz" + request + " --json").out);
  CHECK(answer.at("causes").at(0).at("at_peak") == 396361728);
  CHECK(answer.at("verdict") == "differs");
  CHECK(has(run_cli("snapshot " + folder + "oom.pickle.gz").out, "Bound by allocated"));
  CHECK(json::parse(run_cli("snapshot " + folder + "clean.pickle.gz --events 1000.. --json").out).at("events_in_file") == 2497);

  const Result other = run_cli("compare " + folder + "clean.pickle.gz --model gpt2-from-scratch");
  CHECK(other.status == 2);
  CHECK(has(other.err, "too little in common"));
  CHECK(has(run_cli("snapshot " + written("no-pickle", "hello").string()).err, "byte 0: no pickle of protocol 2 to 5"));
  CHECK(has(run_cli("snapshot " + folder + "request.json").err, "is JSON: this command shows recordings"));
  CHECK(has(run_cli("snapshot /nowhere.pickle").err, "cannot be read: No such file"));
  CHECK(has(run_cli("snapshot").err, "name a file"));
  CHECK(has(run_cli("snapshot " + folder + "clean.pickle.gz --events 5..1").err, "runs backwards"));
  CHECK(has(run_cli("snapshot " + folder + "clean.pickle.gz --cuda-device 3").err, "no events"));
}

TEST_CASE("advice and explanation", "[cli]") {
  const Result advice = run_cli("advise --model gpt2-from-scratch --batch 21 --seq-len 512 --device t4");
  CHECK(advice.status == 0);
  CHECK(has(advice.out, "--checkpointing full"));
  CHECK(has(advice.out, "two at once"));
  CHECK(has(advice.out, "--parallel.strategy fsdp --parallel.gpus 8"));
  // What is printed can be pasted.
  const Result adapters = run_cli("advise --model gpt2 --batch 8 --seq-len 512 --device t4");
  for (const std::string flags :
       {"--checkpointing full --loss chunked --loss-chunks 8", "--lora '{\"rank\":16,\"targets\":\"all-linear\",\"base\":\"nf4\"}'"}) {
    CHECK(has(adapters.out, flags));
    CHECK(run_cli("fit --model gpt2 --seq-len 512 --device t4 " + flags).status == 0);
  }
  const Result account = run_cli("explain " + kRun);
  CHECK(account.status == 0);
  CHECK(has(account.out, "L·B·NH·T²"));
  CHECK(has(account.out, "124,439,808"));
  CHECK(json::parse(run_cli("explain " + kRun + " --json").out).contains("measured_calculator"));
}

TEST_CASE("what has a name", "[cli]") {
  const json devices = json::parse(run_cli("devices --json").out);
  CHECK(devices.size() > 20);
  CHECK(has(run_cli("devices").out, "a40"));
  CHECK(has(run_cli("models").out, "124,439,808"));
  CHECK(json::parse(run_cli("models --json").out)[0].contains("parameters"));
  CHECK(run_cli("version").out.rfind("whatfits ", 0) == 0);
  CHECK(run_cli("--version").out.rfind("whatfits ", 0) == 0);
}

TEST_CASE("help is there wherever it is looked for", "[cli]") {
  const Result bare = run_cli("");
  CHECK(bare.status == 0);
  CHECK(has(bare.out, "whatfits fit --model gpt2-from-scratch --seq-len 1024 --device a40"));
  CHECK(has(run_cli("--help").out, "Exit status"));
  for (const char* command :
       {"fit", "estimate", "ledger", "timeline", "sweep", "advise", "explain", "measure", "devices", "models", "version"}) {
    INFO(command);
    const Result help = run_cli(std::string(command) + " --help");
    CHECK(help.status == 0);
    CHECK(has(help.out, "Example:\n  whatfits " + std::string(command)));
    CHECK(has(bare.out, "whatfits " + std::string(command)));
  }
}

TEST_CASE("the words that the help offers are accepted", "[cli]") {
  const std::string help = run_cli("estimate --help").out;
  for (const std::string flag : {"precision", "attention", "optimizer", "checkpointing", "zero-grad", "engine"}) {
    std::size_t at = help.find("--" + flag + " WORD");
    REQUIRE(at != std::string::npos);
    std::istringstream line(help.substr(at + flag.size() + 7, help.find('[', at) - at - flag.size() - 7));
    for (std::string word; line >> word;) {
      if (word.front() == '(' || word.back() == ')') continue;  // "torch (replay)"
      if (word.back() == ',') word.pop_back();
      INFO(flag << " " << word);
      const std::string precision = flag == "precision" ? "" : " --precision bf16";
      // Some are for the models of Hugging Face only.
      const auto accepted = [&](const std::string& model) {
        return run_cli("estimate --model " + model + " --steps 1 --seq-len 64 --" + flag + " " + word + precision).status != 2;
      };
      CHECK((accepted("gpt2-from-scratch") || accepted("pythia-70m")));
    }
  }
}

TEST_CASE("measure refuses what it cannot do, naming the flag", "[cli]") {
  const std::string run = "measure --model gpt2-from-scratch --on cpu ";
  CHECK(run_cli("measure --model gpt2-from-scratch --on tpu").err == "whatfits: --on: \"tpu\" is not allowed: must be cpu or cuda\n");
  CHECK(run_cli(run + "--lr 2").err == "whatfits: --lr: \"2\" is not allowed: must be a number above 0, at most 1\n");
  CHECK(run_cli(run + "--batches 1,2").err == "whatfits: --batches: a sweep needs a folder for its rows: --out FOLDER\n");
  CHECK(run_cli(run + "--resume").err == "whatfits: --resume: belongs to a sweep: --batches LIST\n");
  CHECK(run_cli(run + "--batches 1 --out x --save y").err == "whatfits: --save: belongs to a single run, not to a sweep\n");
  CHECK(run_cli(run + "--engine formula").status == 2);
  CHECK(run_cli(run + "--data /no/such/file").err == "whatfits: --data: \"/no/such/file\": cannot be opened\n");
}
