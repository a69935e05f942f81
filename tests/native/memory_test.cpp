// What the allocator counts in a real run is what the replay predicts, at every reading.
#include <catch2/catch_test_macros.hpp>
#include <cmath>

#include "analysis/replay.h"
#include "support.h"

using namespace whatfits;
using namespace whatfits::native;
using namespace whatfits::native::test;

namespace {

const char* const kRequests[] = {
    "{}",
    R"({"batch": 1})",
    R"({"batch": 8, "seq_len": 17})",
    R"({"precision": "bf16"})",
    R"({"precision": "amp-bf16"})",
    R"({"precision": "amp-fp16"})",
    R"({"precision": "amp-fp16", "optimizer": "adamw-fused"})",
    R"({"attention": "sdpa"})",
    R"({"attention": "sdpa-math"})",
    R"({"attention": "sdpa-efficient"})",
    R"({"attention": "sdpa-efficient", "precision": "bf16"})",
    R"({"attention": "sdpa-flash", "precision": "bf16"})",
    R"({"attention": "sdpa-flash", "precision": "amp-bf16", "model": {"n_head": 4}})",
    R"({"optimizer": "adamw-fused"})",
    R"({"optimizer": "adamw-for-loop"})",
    R"({"optimizer": "sgd"})",
    R"({"optimizer": "sgd-momentum"})",
    R"({"optimizer": "sgd-momentum", "zero_grad": "zero-fill"})",
    R"({"checkpointing": "full"})",
    R"({"checkpointing": "full", "precision": "amp-bf16"})",
    R"({"clip_grad_norm": true})",
    R"({"clip_grad_norm": true, "precision": "bf16"})",
    R"({"grad_accumulation": 3})",
    R"({"grad_accumulation": 2, "zero_grad": "zero-fill", "clip_grad_norm": true})",
    R"({"allocator": {"expandable_segments": true}})",
    R"({"device": "h100"})",
    R"({"script": {"warmup_matmul": 0}})",
    R"({"model": {"n_layer": 1, "n_embd": 768, "n_head": 12, "vocab_size": 5003, "n_positions": 128}, "batch": 2, "seq_len": 128})",
};

/// The same tokens in every step: whatever the optimizer, its loss falls.
class OneBatch final : public Batches {
 public:
  explicit OneBatch(std::int64_t vocab) : random_(vocab, 5) {}
  void fill(std::span<std::int64_t> ids, std::int64_t sequences, std::uint64_t /*index*/) override { random_.fill(ids, sequences, 0); }

 private:
  RandomBatches random_;
};

bool same(const StepCounters& a, const StepCounters& b) {
  return a.before == b.before && a.after_forward == b.after_forward && a.after_backward == b.after_backward &&
         a.after_optimizer_step == b.after_optimizer_step && a.after_zero_grad == b.after_zero_grad && a.peak == b.peak;
}

}  // namespace

TEST_CASE("counters of a real run equal the prediction at every reading, and it learns", "[memory]") {
  for (const char* request : kRequests) {
    INFO(request);
    const Config config = tiny(request);
    const bool sgd = config.optimizer == Optimizer::sgd || config.optimizer == Optimizer::sgd_momentum;
    Run run(config, record(config), {.hyper = {.lr = sgd ? 0.1 : 1e-3}, .poison = true},
            std::make_unique<OneBatch>(config.model.vocab_size));
    REQUIRE(run.executor.setup());
    std::vector<double> losses;
    for (int step = 0; step < 4; ++step) {
      REQUIRE(run.executor.step());
      losses.push_back(run.executor.loss());
      CHECK(std::isfinite(losses.back()));
    }
    CHECK(losses.back() < losses.front());
    const Trace predicted = replay(run.program, config, {.steps = 4});
    const Trace& seen = run.executor.trace();
    CHECK(seen.after_warmup == predicted.after_warmup);
    CHECK(seen.after_model == predicted.after_model);
    CHECK(seen.after_optimizer == predicted.after_optimizer);
    REQUIRE(seen.steps.size() == predicted.steps.size());
    for (std::size_t i = 0; i < seen.steps.size(); ++i) CHECK(same(seen.steps[i], predicted.steps[i]));
    CHECK(seen.peak == predicted.peak);
    CHECK(seen.retries == predicted.retries);
  }
}

TEST_CASE("a run that does not fit fails where the prediction says", "[memory]") {
  Config config = tiny(R"({"model": {"n_layer": 4}, "batch": 8})");
  config.device.total_mib = 64;
  config.device.free_mib = 24;  // between the 22 MiB that the model, its workspaces and the warm-up reserve and the 26 of a step
  Run run(config, {});
  bool going = run.executor.setup();
  for (int step = 0; going && step < 3; ++step) going = run.executor.step();
  const Trace predicted = replay(run.program, config, {.steps = 3});
  REQUIRE(predicted.oom);
  REQUIRE(!going);
  CHECK(run.executor.trace().oom->at.event == predicted.oom->at.event);
  CHECK(run.executor.trace().oom->message == predicted.oom->message);
}

TEST_CASE("two runs are equal to the bit", "[numerics]") {
  for (const char* request : {"{}", R"({"precision": "amp-bf16", "attention": "sdpa-flash"})", R"({"optimizer": "sgd-momentum"})"}) {
    std::vector<std::vector<double>> parameters[2];
    for (auto& all : parameters) {
      Run run(tiny(request), {});
      REQUIRE(run.executor.setup());
      for (int step = 0; step < 3; ++step) REQUIRE(run.executor.step());
      for (const NamedTensor& p : run.executor.persistent()) all.push_back(values(p.view));
    }
    CHECK(parameters[0] == parameters[1]);
  }
}
