// What runs on a card, without one: kernels on fibers against the CPU's, and the host's logic over a stand-in for CUDA.
#include <algorithm>
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "cuda/card_run.h"
#include "cuda/cuda_memory.h"
#include "cusim.h"
#include "stand_in.h"
#include "support.h"

using namespace whatfits;
using namespace whatfits::native;
using namespace whatfits::native::test;

namespace {

/// Two layers, so small that fibers do them in a second.
Config small(const std::string& changes = "{}") {
  nlohmann::json request = {
      {"model", {{"n_layer", 1}, {"n_embd", 32}, {"n_head", 2}, {"vocab_size", 61}, {"n_positions", 12}}}, {"batch", 2}, {"seq_len", 12}};
  request.merge_patch(nlohmann::json::parse(changes));
  return tiny(request.dump());
}

struct CardRun {
  explicit CardRun(Config config_, bool poison = false)
      : config(std::move(config_)),
        program(record(config)),
        card(config.device),
        kernels(card),
        source(card),
        batches(config.model.vocab_size, 1),
        executor(program, config, source, kernels, batches, {.hyper = {.lr = 1e-3}, .poison = poison}) {}
  Config config;
  Program program;
  StandInCuda card;
  cuda::CudaKernels kernels;
  cuda::CudaSource source;
  RandomBatches batches;
  Executor executor;
};

const char* const kRequests[] = {
    "{}",
    R"({"precision": "bf16"})",
    R"({"precision": "amp-bf16"})",
    R"({"precision": "amp-fp16"})",
    R"({"attention": "sdpa-math"})",
    R"({"attention": "sdpa-efficient"})",
    R"({"attention": "sdpa-flash", "precision": "bf16"})",
    R"({"attention": "sdpa-flash", "precision": "amp-bf16"})",
    R"({"optimizer": "adamw-fused", "clip_grad_norm": true})",
    R"({"optimizer": "sgd"})",
    R"({"optimizer": "sgd-momentum", "zero_grad": "zero-fill", "grad_accumulation": 2})",
    R"({"checkpointing": "full"})",
};

}  // namespace

TEST_CASE("a card's kernels train as the CPU's do, and its counters are the predicted ones", "[cuda]") {
  for (const char* request : kRequests) {
    INFO(request);
    const Config config = small(request);
    const bool half = config.precision != Precision::fp32;
    CardRun card(config, true);
    Run cpu(config, {.hyper = {.lr = 1e-3}});
    REQUIRE(card.executor.setup());
    REQUIRE(cpu.executor.setup());
    for (int step = 0; step < 2; ++step) {
      REQUIRE(card.executor.step());
      REQUIRE(cpu.executor.step());
      CHECK(std::fabs(card.executor.loss() - cpu.executor.loss()) < (half ? 1e-2 : 1e-5) * cpu.executor.loss());
    }
    const auto ours = card.executor.persistent();
    const auto theirs = cpu.executor.persistent();
    REQUIRE(ours.size() == theirs.size());
    for (std::size_t i = 0; i < ours.size(); ++i) {
      INFO(ours[i].name);
      // Where a gradient is rounding AdamW makes steps of up to the learning rate of it, in either direction.
      const double limit = half || config.optimizer == Optimizer::adamw || config.optimizer == Optimizer::adamw_fused ? 5e-3 : 1e-5;
      const std::vector<double> a = values(ours[i].view);
      const std::vector<double> b = values(theirs[i].view);
      double worst = 0;
      for (std::size_t k = 0; k < a.size(); ++k) worst = std::fmax(worst, std::fabs(a[k] - b[k]));
      CHECK(worst < limit);
    }
    const Trace predicted = replay(card.program, config, {.steps = 2});
    CHECK(card.executor.trace().peak == predicted.peak);
    CHECK(card.executor.trace().steps.back().after_backward == predicted.steps.back().after_backward);
  }
}

TEST_CASE("the order of a block's threads changes nothing", "[cuda]") {
  std::vector<std::vector<double>> parameters[2];
  for (unsigned seed : {0U, 7U}) {
    cusim::set_order(seed);
    CardRun run(small(R"({"clip_grad_norm": true})"));
    REQUIRE(run.executor.setup());
    REQUIRE(run.executor.step());
    for (const NamedTensor& p : run.executor.persistent()) parameters[seed == 0 ? 0 : 1].push_back(values(p.view));
  }
  cusim::set_order(0);
  CHECK(parameters[0] == parameters[1]);
}

TEST_CASE("segments come in the predicted order and sizes, and all go back", "[cuda]") {
  const Config config = small();
  StandInCuda card(config.device);
  {
    const Program program = record(config);
    cuda::CudaKernels kernels(card);
    cuda::CudaSource source(card);
    RandomBatches batches(config.model.vocab_size, 1);
    Executor executor(program, config, source, kernels, batches, {.hyper = {.lr = 1e-3}});
    REQUIRE(executor.setup());
    REQUIRE(executor.step());
    Bytes reserved = 0;
    for (std::size_t i = 1; i < card.allocations.size(); ++i) reserved += card.allocations[i];  // the first is the kernels' scratch
    CHECK(card.allocations.front() == cuda::kScratch);
    CHECK(reserved == executor.allocator().reserved());
    CHECK(source.taken(2 * MiB) + cuda::kScratch == card.held);
    // Each product has the workspace of its thread: the backward thread's is another than the main thread's.
    std::vector<const void*> different(card.workspaces);
    std::sort(different.begin(), different.end());
    different.erase(std::unique(different.begin(), different.end()), different.end());
    CHECK(different.size() == 2);
    CHECK(different.front() != nullptr);
  }
  CHECK(card.held == 0);
}

TEST_CASE("a card that is too small fails where the prediction says", "[cuda]") {
  Config config = small(R"({"model": {"n_embd": 64, "vocab_size": 2111}, "batch": 8})");
  config.device.total_mib = 64;
  config.device.free_mib = 26;
  CardRun run(config);
  // The stand-in's card holds the kernels' scratch too: the allocator has so much less.
  Config left = config;
  left.device.free_mib -= static_cast<std::int64_t>(cuda::kScratch / MiB);
  const Trace predicted = replay(run.program, left, {.steps = 3});
  REQUIRE(predicted.oom);
  bool going = run.executor.setup();
  for (int step = 0; going && step < 3; ++step) going = run.executor.step();
  REQUIRE(!going);
  CHECK(run.executor.trace().oom->at.event == predicted.oom->at.event);
}

TEST_CASE("a kernel that fails ends the run with its name", "[cuda]") {
  CardRun run(small());
  run.card.fail_after = 40;
  std::string what;
  try {
    REQUIRE(run.executor.setup());
    for (int step = 0; step < 3; ++step) run.executor.step();
  } catch (const cuda::CudaError& error) {
    what = error.what();
  }
  CHECK(what.find(": an illegal memory access") != std::string::npos);
}

namespace {

class StandInNvml final : public cuda::Nvml {
 public:
  explicit StandInNvml(int others) : others_(others) {}
  std::optional<Bytes> used() override { return 0; }
  std::optional<int> processes() override { return others_; }
  std::optional<std::string> driver() override { return "1.2.3"; }

 private:
  int others_;
};

}  // namespace

TEST_CASE("a measured run on a card closes its account", "[cuda]") {
  Config config = small();
  config.steps = 2;
  StandInCuda card(config.device);
  StandInNvml nvml(0);
  MeasureOptions options;
  options.on = "cuda";
  const RunResult result = cuda::run_on_card(config, options, card, &nvml, nullptr);
  REQUIRE(result.card);
  CHECK(result.equal);
  CHECK(result.suspect.empty());
  CHECK(result.card->granule == 2 * MiB);
  CHECK(result.card->calibration.size() == 5);
  CHECK(result.card->runs == 3);
  CHECK(result.card->runs_identical);
  CHECK(result.card->scratch == static_cast<std::int64_t>(cuda::kScratch));
  CHECK(result.card->segments == static_cast<std::int64_t>(result.measured.peak.reserved));
  CHECK(result.card->residual == 0);
  CHECK(!result.card->stages.front().runtime_used);  // it would have made a context
  // The card has less free than the request thought: what the program is replayed on is the real one.
  CHECK(result.config.device.free_mib == config.device.free_mib - static_cast<std::int64_t>(cuda::kScratch / MiB));
  CHECK(card.held == 0);
  CHECK(card.calls.front() == "start");
}

TEST_CASE("others on the card are refused, or marked", "[cuda]") {
  const Config config = small(R"({"steps": 1})");
  StandInNvml nvml(2);
  MeasureOptions options;
  options.on = "cuda";
  StandInCuda card(config.device);
  CHECK_THROWS_AS(cuda::run_on_card(config, options, card, &nvml, nullptr), Impossible);
  CHECK(card.calls.empty());  // not even a context was made
  options.allow_shared = true;
  CHECK(cuda::run_on_card(config, options, card, &nvml, nullptr).suspect.size() == 1);
}
