// The switches that advise tries.
#include "analysis/changes.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "models/hf/families.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

void adapters(Config& c, bool nf4) {
  c.lora = Lora{};
  c.lora->rank = 16;
  for (const std::string_view linear : hf::linear_names(c.model.model_type)) c.lora->targets.emplace_back(linear);
  c.lora->nf4 = nf4;
}

}  // namespace

bool is_valid(const Config& config) { return parse_request(request_json(config)).problems.empty(); }

std::vector<Change> applicable_changes(const Config& now) {
  std::vector<Change> list;
  const auto offer = [&](bool applies, Change change) {
    if (!applies) return;
    Config changed = now;
    change.apply(changed);
    if (is_valid(changed)) list.push_back(std::move(change));
  };
  const bool full_fp32 = now.precision == Precision::fp32;
  const bool has_bf16 = now.device.compute_capability >= 80;
  const bool adam =
      now.optimizer == Optimizer::adamw || now.optimizer == Optimizer::adamw_for_loop || now.optimizer == Optimizer::adamw_fused;
  const bool unchecked = now.checkpointing == Checkpointing::none;

  offer(now.attention == Attention::eager || now.attention == Attention::sdpa_math,
        {"attention", Effect::same, "fused attention", "the scores are never stored",
         "none: the same sums in another order, usually faster", [](Config& c) { c.attention = Attention::sdpa; }});
  offer(unchecked,
        {"checkpointing", Effect::same, "checkpoint each block", "keep its input, compute it again",
         "a second forward pass of every block, about a third more computation", [](Config& c) { c.checkpointing = Checkpointing::full; }});
  offer(unchecked,
        {"checkpointing", Effect::same, "selective checkpoints", "keep products and fused attention, compute the rest again",
         "norms, activations and dropout are computed twice: some speed", [](Config& c) { c.checkpointing = Checkpointing::selective; }});
  offer(full_fp32 && has_bf16,
        {"precision", Effect::rounding, "autocast to bfloat16", "", "products in bfloat16: less precise, usually faster",
         [](Config& c) { c.precision = Precision::amp_bf16; }});
  offer(full_fp32 && !has_bf16,
        {"precision", Effect::rounding, "autocast to float16 with a gradient scaler", "",
         "products in float16: less precise and a narrow range, usually faster", [](Config& c) { c.precision = Precision::amp_fp16; }});
  offer(now.precision != Precision::bf16 && has_bf16,
        {"precision", Effect::other, "everything in bfloat16", "weights, gradients and optimizer state",
         "updates are rounded to 8 bits: training may stall or differ", [](Config& c) { c.precision = Precision::bf16; }});
  offer(!now.allocator.expandable_segments,
        {"allocator", Effect::same, "expandable segments", "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True", "none for a run like this",
         [](Config& c) { c.allocator.expandable_segments = true; }});
  offer(now.batch >= 2 && now.batch % 2 == 0,
        {"batch", Effect::same, "half the batch, twice the micro-batches", "grad_accumulation " + std::to_string(2 * now.grad_accumulation),
         "more and smaller kernels: some speed", [](Config& c) {
           c.batch /= 2;
           c.grad_accumulation *= 2;
         }});
  offer(now.seq_len >= 2, {"seq_len", Effect::other, "half the sequence length", "", "half the context to learn from",
                           [](Config& c) { c.seq_len /= 2; }, false});

  offer(now.optimizer == Optimizer::adamw || now.optimizer == Optimizer::adamw_for_loop,
        {"optimizer", Effect::same, "fused AdamW", "no temporaries in its step", "none, usually faster",
         [](Config& c) { c.optimizer = Optimizer::adamw_fused; }});
  offer(adam, {"optimizer", Effect::rounding, "8-bit AdamW", "a byte for each moment, not the parameter's width",
               "moments are rounded to 8 bits: another result, mostly as good; needs bitsandbytes",
               [](Config& c) { c.optimizer = Optimizer::adamw_8bit; }});
  offer(adam, {"optimizer", Effect::other, "Lion", "one state tensor a parameter, not two",
               "another optimizer: its learning rate has to be found again", [](Config& c) { c.optimizer = Optimizer::lion; }});
  offer(adam,
        {"optimizer", Effect::other, "SGD with momentum", "one state tensor a parameter, not two",
         "another optimizer: its learning rate has to be found again", [](Config& c) { c.optimizer = Optimizer::sgd_momentum; }, false});
  offer(adam || now.optimizer == Optimizer::sgd_momentum,
        {"optimizer", Effect::other, "plain SGD", "no state at all", "another optimizer: transformers train poorly with it",
         [](Config& c) { c.optimizer = Optimizer::sgd; }, false});

  offer(now.loss == Loss::standard, {"loss", Effect::same, "fused linear cross-entropy", "the logits are never all there",
                                     "the model returns no logits; needs Liger Kernel", [](Config& c) { c.loss = Loss::fused_linear; }});
  offer(now.loss == Loss::standard,
        {"loss", Effect::same, "the loss in chunks", "the logits of one chunk at a time, under a checkpoint",
         "the head's product is computed twice; a few lines of the training script", [](Config& c) { c.loss = Loss::chunked; }});

  const bool whole = !now.lora && now.trainable.what == Trainable::What::all;
  offer(whole, {"lora", Effect::other, "LoRA", "adapters of rank 16 at every linear layer, all else frozen",
                "only the adapters learn: a fine-tune's result, not a pretraining's; needs PEFT", [](Config& c) { adapters(c, false); }});
  offer(whole,
        {"lora", Effect::other, "QLoRA", "adapters of rank 16 at every linear layer, the frozen ones in 4 bits",
         "only the adapters learn, over a base rounded to 4 bits and unpacked for every product: slower; needs PEFT and bitsandbytes",
         [](Config& c) { adapters(c, true); }});
  offer(now.lora && !now.lora->nf4,
        {"lora", Effect::rounding, "QLoRA", "the frozen linear layers in 4 bits",
         "the base is rounded to 4 bits, another result, and unpacked for every product: slower; needs bitsandbytes",
         [](Config& c) { c.lora->nf4 = true; }});

  const bool sharded = now.parallel && now.parallel->fully_sharded() && now.parallel->strategy != Parallel::Strategy::zero2;
  offer(!now.parallel, {"parallel", Effect::same, "FSDP2 on 8 cards", "parameters, gradients and optimizer state in shards",
                        "seven more cards; parameters are gathered twice a step: communication",
                        [](Config& c) { c.parallel = Parallel{.strategy = Parallel::Strategy::fsdp, .gpus = 8}; }, false});
  offer(now.parallel && !sharded,
        {"parallel", Effect::same, "FSDP2", "parameters, gradients and optimizer state in shards",
         "parameters are gathered twice a step: more communication", [](Config& c) { c.parallel->strategy = Parallel::Strategy::fsdp; }});
  offer(sharded, {"parallel", Effect::same, "twice the cards", "half of every shard", "twice the cards",
                  [](Config& c) { c.parallel->gpus *= 2; }, false});
  offer(now.zero_grad == ZeroGrad::zero_fill, {"zero_grad", Effect::same, "let gradients go instead of filling them with zeros", "", "none",
                                               [](Config& c) { c.zero_grad = ZeroGrad::set_to_none; }});
  return list;
}

}  // namespace whatfits
