// What to change: every switch that the request does not use yet, tried for real.
#include <algorithm>
#include <nlohmann/json.hpp>
#include <vector>

#include "analysis/replay.h"
#include "whatfits/estimate.h"
#include "whatfits/jobs.h"
#include "whatfits/request.h"

namespace whatfits {

namespace {

struct Change {
  std::string key;
  std::string value;
  std::string title;
  std::string cost;
  Config config;
};

/// What the run would need, seen on a card on which nothing ever fails.
Counters needs(const Program& program, Config config) {
  config.device.free_mib = limits::memory_mib;
  return replay(program, config, {.steps = kMaxSteps, .until_settled = true}).peak;
}

std::vector<Change> changes(const Config& now) {
  std::vector<Change> list;
  const auto offer = [&](bool applies, std::string key, std::string value, std::string title, std::string cost, auto&& apply) {
    if (!applies) return;
    Change change{std::move(key), std::move(value), std::move(title), std::move(cost), now};
    apply(change.config);
    list.push_back(std::move(change));
  };
  const bool full_fp32 = now.precision == Precision::fp32;
  const bool has_bf16 = now.device.compute_capability >= 80;
  offer(now.attention == Attention::eager || now.attention == Attention::sdpa_math, "attention", "\"sdpa\"",
        "fused attention: the scores are never stored", "none: the same sums in another order, usually faster",
        [](Config& c) { c.attention = Attention::sdpa; });
  offer(now.checkpointing == Checkpointing::none, "checkpointing", "\"full\"", "checkpoint each block: keep its input, compute it again",
        "a second forward pass of every block, about a third more computation", [](Config& c) { c.checkpointing = Checkpointing::full; });
  offer(now.checkpointing == Checkpointing::none, "checkpointing", "\"selective\"",
        "selective checkpoints: keep products and fused attention, compute the rest again",
        "norms, activations and dropout are computed twice: some speed", [](Config& c) { c.checkpointing = Checkpointing::selective; });
  offer(full_fp32 && has_bf16, "precision", "\"amp-bf16\"", "autocast to bfloat16", "products in bfloat16: less precise, usually faster",
        [](Config& c) { c.precision = Precision::amp_bf16; });
  offer(full_fp32 && !has_bf16, "precision", "\"amp-fp16\"", "autocast to float16 with a gradient scaler",
        "products in float16: less precise and a narrow range, usually faster", [](Config& c) { c.precision = Precision::amp_fp16; });
  offer(now.precision != Precision::bf16 && has_bf16, "precision", "\"bf16\"", "weights, gradients and optimizer state in bfloat16",
        "updates are rounded to 8 bits: training may stall or differ", [](Config& c) { c.precision = Precision::bf16; });
  offer(!now.allocator.expandable_segments, "allocator", "{\"expandable_segments\": true}",
        "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "none for a run like this",
        [](Config& c) { c.allocator.expandable_segments = true; });
  offer(now.batch >= 2 && now.batch % 2 == 0, "batch", std::to_string(now.batch / 2),
        "half the batch, twice the micro-batches (grad_accumulation " + std::to_string(2 * now.grad_accumulation) + ")",
        "more and smaller kernels: some speed", [](Config& c) {
          c.batch /= 2;
          c.grad_accumulation *= 2;
        });
  offer(now.seq_len >= 2, "seq_len", std::to_string(now.seq_len / 2), "half the sequence length", "half the context to learn from",
        [](Config& c) { c.seq_len /= 2; });
  const bool adam =
      now.optimizer == Optimizer::adamw || now.optimizer == Optimizer::adamw_for_loop || now.optimizer == Optimizer::adamw_fused;
  offer(now.optimizer == Optimizer::adamw || now.optimizer == Optimizer::adamw_for_loop, "optimizer", "\"adamw-fused\"",
        "fused AdamW: no temporaries in its step", "none, usually faster", [](Config& c) { c.optimizer = Optimizer::adamw_fused; });
  offer(adam, "optimizer", "\"adamw-8bit\"", "8-bit AdamW: a byte for each moment, not the parameter's width",
        "moments are rounded to 8 bits: another result, mostly as good; needs bitsandbytes",
        [](Config& c) { c.optimizer = Optimizer::adamw_8bit; });
  offer(adam, "optimizer", "\"lion\"", "Lion: one state tensor a parameter, not two",
        "another optimizer: its learning rate has to be found again", [](Config& c) { c.optimizer = Optimizer::lion; });
  offer(adam, "optimizer", "\"sgd-momentum\"", "SGD with momentum: one state tensor a parameter, not two",
        "another optimizer: its learning rate has to be found again", [](Config& c) { c.optimizer = Optimizer::sgd_momentum; });
  offer(adam || now.optimizer == Optimizer::sgd_momentum, "optimizer", "\"sgd\"", "plain SGD: no state at all",
        "another optimizer: transformers train poorly with it", [](Config& c) { c.optimizer = Optimizer::sgd; });
  offer(now.loss == Loss::standard, "loss", "\"fused-linear\"", "fused linear cross-entropy: the logits are never all there",
        "none in the result; the model returns no logits; needs Liger Kernel", [](Config& c) { c.loss = Loss::fused_linear; });
  if (now.lora && !now.lora->nf4) {
    Config in_4_bits = now;
    in_4_bits.lora->nf4 = true;
    offer(true, "lora", request_json(in_4_bits)["lora"].dump(), "QLoRA: the frozen linear layers in 4 bits",
          "the base is rounded to 4 bits, another result, and unpacked for every product: slower; needs bitsandbytes",
          [](Config& c) { c.lora->nf4 = true; });
  }
  offer(now.parallel && now.parallel->strategy == Parallel::Strategy::ddp, "parallel",
        "{\"strategy\": \"fsdp\", \"gpus\": " + std::to_string(now.parallel ? now.parallel->gpus : 0) + "}",
        "FSDP2: parameters, gradients and optimizer state in shards", "parameters are gathered twice a step: more communication",
        [](Config& c) { c.parallel->strategy = Parallel::Strategy::fsdp; });
  offer(now.zero_grad == ZeroGrad::zero_fill, "zero_grad", "\"set-to-none\"", "let gradients go instead of filling them with zeros", "none",
        [](Config& c) { c.zero_grad = ZeroGrad::set_to_none; });
  // Not every switch goes with every model, card and other switch.
  std::erase_if(list, [](const Change& c) { return !parse_request(request_json(c.config)).problems.empty(); });
  return list;
}

}  // namespace

AdviseJob::AdviseJob(Config config) : config_(std::move(config)) {
  for (Change& change : changes(config_)) {
    Advice advice;
    advice.key = std::move(change.key);
    advice.value = std::move(change.value);
    advice.title = std::move(change.title);
    advice.cost = std::move(change.cost);
    advice.config = std::move(change.config);
    open_.push_back(std::move(advice));
  }
  std::reverse(open_.begin(), open_.end());
}

/// What one subject needs, then the largest batch of it; the request itself is the first subject.
bool AdviseJob::step() {
  if (own_figures_ && open_.empty()) return false;
  const Config& subject = own_figures_ ? open_.back().config : config_;
  if (!needs_) {
    const Program program = record(subject);
    needs_ = needs(program, subject);
    pace_ = pace(program, subject);
    return true;
  }
  if (!fit_) fit_.emplace(subject);
  if (fit_->step()) return true;
  const Counters after = *needs_;
  const std::int64_t largest = fit_->largest();
  needs_.reset();
  fit_.reset();
  finish_one(after, largest);
  return !open_.empty();
}

void AdviseJob::finish_one(const Counters& after, std::int64_t largest) {
  if (!own_figures_) {
    own_figures_ = true;
    own_pace_ = pace_;
    advices_.needs = after;
    advices_.largest_batch = largest;
    advices_.fits = config_.batch <= largest;
    return;
  }
  Advice advice = std::move(open_.back());
  open_.pop_back();
  const auto less = [](Bytes now, Bytes then) { return static_cast<std::int64_t>(now) - static_cast<std::int64_t>(then); };
  advice.saves = less(advices_.needs.reserved, after.reserved);
  advice.saves_allocated = less(advices_.needs.allocated, after.allocated);
  advice.largest_batch = largest;
  advice.fits = advice.config.batch <= largest;
  advice.time_percent = pace_.percent_of(own_pace_);
  const auto place = std::upper_bound(advices_.list.begin(), advices_.list.end(), advice,
                                      [](const Advice& a, const Advice& b) { return a.saves > b.saves; });
  advices_.list.insert(place, std::move(advice));
}

Advices advise(const Config& config) {
  AdviseJob job(config);
  while (job.step()) {
  }
  return job.result();
}

}  // namespace whatfits
