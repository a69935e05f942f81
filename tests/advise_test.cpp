// Advice: each change is what a request with it comes to, pairs are better than their halves, and it comes in steps.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <nlohmann/json.hpp>
#include <string>

#include "whatfits/estimate.h"
#include "whatfits/jobs.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace {

using namespace whatfits;
using nlohmann::ordered_json;

Config config_of(const std::string& text) {
  const ParsedRequest parsed = parse_request(text);
  for (const Problem& problem : parsed.problems) FAIL(to_line(problem));
  return parsed.config;
}

std::string card(int free_mib) {
  return R"(, "device": {"name": "small", "total_mib": 8192, "free_mib": )" + std::to_string(free_mib) +
         R"(, "compute_capability": "8.6", "sm_count": 84}})";
}

Config tiny() {
  return config_of(R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 128, "n_head": 4, "vocab_size": 1000,
    "n_positions": 256}, "batch": 4)" +
                   card(300));
}

// 20M parameters: the weights are what takes the room.
Config llama(int free_mib, const std::string& rest = "") {
  return config_of(R"({"model": {"model_type": "llama", "num_hidden_layers": 4, "hidden_size": 512, "intermediate_size": 2048,
    "num_attention_heads": 8, "vocab_size": 2000, "max_position_embeddings": 512}, "seq_len": 256, "batch": 2)" +
                   rest + card(free_mib));
}

// The request's JSON with one setting of an advice made.
void set(ordered_json& request, const Setting& setting) {
  const auto dot = setting.key.find('.');
  ordered_json& section = dot == std::string::npos ? request : request[setting.key.substr(0, dot)];
  section[dot == std::string::npos ? setting.key : setting.key.substr(dot + 1)] = ordered_json::parse(setting.value);
}

const Advice* named(const Advices& advices, const std::string& name) {
  const auto found = std::find_if(advices.list.begin(), advices.list.end(), [&](const Advice& a) { return a.name == name; });
  return found == advices.list.end() ? nullptr : &*found;
}

TEST_CASE("advice comes in steps, and to the same") {
  const Config config = tiny();
  AdviseJob job(config);
  CHECK(job.done() == 0);
  const std::size_t changes = job.total();
  REQUIRE(job.step());
  CHECK(job.result().needs == Counters{});
  std::size_t known = 0;
  while (job.step()) {
    CHECK(job.done() >= known);
    CHECK(job.total() >= changes);
    known = job.done();
  }
  CHECK(job.done() == job.total());
  CHECK(job.done() > changes);
  CHECK_FALSE(job.step());
  CHECK(std::is_sorted(job.result().list.begin(), job.result().list.end(),
                       [](const Advice& a, const Advice& b) { return a.saves > b.saves; }));
  CHECK(to_json(job.result()) == to_json(advise(config)));
}

TEST_CASE("an advice is what a request with its changes comes to") {
  for (const Config& config :
       {tiny(), llama(600), llama(600, R"(, "lora": {"rank": 8, "targets": ["q_proj"]})"),
        llama(600, R"(, "parallel": {"strategy": "ddp", "gpus": 4})"), llama(600, R"(, "parallel": {"strategy": "fsdp", "gpus": 4})")}) {
    const Advices advices = advise(config);
    CHECK(advices.list.size() > 5);
    for (const Advice& advice : advices.list) {
      INFO(advice.title);
      ordered_json request = request_json(config);
      if (advice.config.parallel && !config.parallel) request["parallel"] = ordered_json::object();
      for (const Setting& setting : advice.changes) set(request, setting);
      CHECK(parse_request(request) == ParsedRequest{advice.config, {}});
      CHECK(advice.fits == (advice.config.batch <= advice.largest_batch));
      Config roomy = advice.config;
      roomy.device.free_mib = limits::memory_mib;
      CHECK(static_cast<std::int64_t>(estimate(roomy).trace.peak.allocated) <=
            static_cast<std::int64_t>(advices.needs.allocated) - advice.saves_allocated);  // of three steps; advice sees more
    }
  }
}

TEST_CASE("a pair saves more than each of its halves") {
  const Advices advices = advise(llama(600));
  std::size_t pairs = 0;
  for (const Advice& advice : advices.list) {
    if (!advice.pair) continue;
    ++pairs;
    INFO(advice.name);
    const auto plus = advice.name.find(" + ");
    REQUIRE(plus != std::string::npos);
    for (const std::string& half : {advice.name.substr(0, plus), advice.name.substr(plus + 3)}) {
      const Advice* single = named(advices, half);
      REQUIRE(single != nullptr);
      CHECK(advice.saves > single->saves);
      CHECK(advice.effect >= single->effect);
    }
  }
  CHECK(pairs >= 3);
  CHECK(pairs <= 6);
}

TEST_CASE("adapters are offered where a full fine-tune does not fit") {
  const Config config = llama(170);
  const Advices advices = advise(config);
  CHECK_FALSE(advices.fits);
  const Advice* lora = named(advices, "LoRA");
  REQUIRE(lora != nullptr);
  CHECK(lora->effect == Effect::other);
  REQUIRE(lora->changes.size() == 1);
  CHECK(lora->changes[0].key == "lora");
  CHECK(lora->changes[0].value == R"({"rank":16,"targets":"all-linear"})");
  const Advice* in_4_bits = named(advices, "QLoRA");
  REQUIRE(in_4_bits != nullptr);
  CHECK(in_4_bits->changes[0].value == R"({"rank":16,"targets":"all-linear","base":"nf4"})");
  // Not twice, and not for a model that PEFT was not replayed with.
  CHECK(named(advise(lora->config), "LoRA") == nullptr);
  CHECK(named(advise(lora->config), "QLoRA") != nullptr);
  CHECK(named(advise(tiny()), "LoRA") == nullptr);
}

TEST_CASE("what differs between two requests is said by key") {
  const Config before = llama(600);
  Config after = before;
  CHECK(differences(before, after).empty());
  after.batch = 1;
  after.allocator.expandable_segments = true;
  after.parallel = Parallel{.strategy = Parallel::Strategy::ddp, .gpus = 2};
  std::string said;
  for (const Setting& setting : differences(before, after)) said += setting.key + "=" + setting.value + " ";
  CHECK(said == R"(batch=1 parallel.strategy="ddp" parallel.gpus=2 allocator.expandable_segments=true )");
  said.clear();
  for (const Setting& setting : differences(after, before)) said += setting.key + "=" + setting.value + " ";
  CHECK(said == "batch=2 parallel=null allocator.expandable_segments=false ");
}

}  // namespace
