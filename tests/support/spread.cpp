#include "support/spread.h"

#include "support/runs.h"
#include "whatfits/request.h"

namespace whatfits::testing {
namespace {

const std::string kModel = R"("model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 128, "n_head": 4, "vocab_size": 997,
                                        "n_positions": 160}, "batch": 3, "seq_len": 160)";

}  // namespace

std::vector<NamedConfig> combinations() {
  std::vector<NamedConfig> list;
  for (const char* precision : {"fp32", "bf16", "amp-bf16", "amp-fp16"}) {
    for (const char* attention : {"eager", "sdpa", "sdpa-math", "sdpa-efficient", "sdpa-flash"}) {
      for (const char* optimizer : {"adamw", "adamw-fused", "adamw-for-loop", "sgd", "sgd-momentum"}) {
        for (const char* checkpointing : {"none", "full"}) {
          const std::string name = std::string(precision) + " " + attention + " " + optimizer + " " + checkpointing;
          const ParsedRequest parsed =
              parse_request("{" + kModel + R"(, "precision": ")" + precision + R"(", "attention": ")" + attention + R"(", "optimizer": ")" +
                            optimizer + R"(", "checkpointing": ")" + checkpointing + R"("})");
          if (parsed.problems.empty()) list.push_back({name, parsed.config});
        }
      }
    }
  }
  return list;
}

std::vector<NamedConfig> oddities() {
  std::vector<NamedConfig> list;
  const auto add = [&](const std::string& more) { list.push_back({more, config_of("{" + kModel + ", " + more + "}")}); };
  const auto of = [&](const std::string& model, const std::string& more) {
    list.push_back({model + more, config_of(R"({"model": {"model_type": "gpt2-from-scratch", )" + model + "}, " + more + "}")});
  };
  add(R"("grad_accumulation": 3)");
  add(R"("grad_accumulation": 2, "zero_grad": "zero-fill")");
  add(R"("grad_accumulation": 2, "precision": "amp-bf16", "checkpointing": "full", "clip_grad_norm": true)");
  add(R"("clip_grad_norm": true)");
  add(R"("clip_grad_norm": true, "precision": "bf16")");
  add(R"("clip_grad_norm": true, "precision": "amp-fp16", "zero_grad": "zero-fill")");
  add(R"("zero_grad": "zero-fill")");
  add(R"("zero_grad": "zero-fill", "optimizer": "sgd", "checkpointing": "full")");
  for (const char* optimizer : {"adamw-8bit", "adamw-8bit-paged", "muon", "lion"}) add(R"("optimizer": ")" + std::string(optimizer) + '"');
  add(R"("allocator": {"expandable_segments": true})");
  add(R"("allocator": {"expandable_segments": true}, "precision": "amp-fp16", "grad_accumulation": 2)");
  add(R"("parallel": {"strategy": "ddp", "gpus": 8})");
  add(R"("parallel": {"strategy": "ddp", "gpus": 2}, "grad_accumulation": 2, "precision": "amp-fp16", "clip_grad_norm": true)");
  add(R"("parallel": {"strategy": "fsdp", "gpus": 8})");
  add(R"("parallel": {"strategy": "zero1", "gpus": 3}, "zero_grad": "zero-fill")");
  add(R"("parallel": {"strategy": "zero2", "gpus": 8}, "precision": "amp-bf16")");
  add(R"("parallel": {"strategy": "fsdp", "gpus": 7}, "grad_accumulation": 2, "precision": "amp-bf16", "zero_grad": "zero-fill")");
  add(R"("parallel": {"strategy": "fsdp", "gpus": 300}, "precision": "bf16", "checkpointing": "full", "attention": "sdpa")");
  add(R"("script": {"warmup_matmul": 0})");
  add(R"("script": {"warmup_matmul": 4096})");
  add(R"("steps": 1)");
  add(R"("steps": 9)");
  for (const char* device : {"t4", "rtx-4090", "a100-80gb", "h100"}) {
    const std::string on = R"("device": ")" + std::string(device) + "\"";
    add(on);
    add(on + R"(, "attention": "sdpa", "precision": "amp-fp16")");
  }
  add(R"("device": {"name": "small", "total_mib": 600, "free_mib": 100, "compute_capability": "8.6", "sm_count": 84})");
  of(R"("n_layer": 1, "n_embd": 8, "n_head": 1, "vocab_size": 2, "n_positions": 1)", R"("batch": 1, "seq_len": 1)");
  of(R"("n_layer": 1, "n_embd": 7, "n_head": 7, "vocab_size": 11, "n_positions": 13)", R"("batch": 1, "seq_len": 5)");
  of(R"("n_layer": 3, "n_embd": 100, "n_head": 5, "vocab_size": 1009, "n_positions": 512)", R"("batch": 7, "seq_len": 333)");
  of(R"("n_layer": 3, "n_embd": 100, "n_head": 5, "vocab_size": 1009, "n_positions": 512)",
     R"("batch": 7, "seq_len": 333, "attention": "sdpa", "precision": "bf16", "checkpointing": "full")");
  of(R"("n_layer": 2, "n_embd": 64, "n_head": 2, "vocab_size": 131072, "n_positions": 64)", R"("batch": 2, "seq_len": 64)");
  of(R"("n_layer": 2, "n_embd": 64, "n_head": 8, "vocab_size": 512, "n_positions": 2048)",
     R"("batch": 1, "seq_len": 2048, "attention": "sdpa-efficient", "precision": "amp-bf16")");
  of(R"("n_layer": 24, "n_embd": 64, "n_head": 4, "vocab_size": 512, "n_positions": 64)", R"("batch": 4, "seq_len": 64)");
  list.push_back({"gpt2-from-scratch, batch 8", config_of(std::string(R"({"model": "gpt2-from-scratch", "batch": 8, "seq_len": 1024})"))});
  list.push_back(
      {"gpt2-from-scratch, batch 21", config_of(std::string(R"({"model": "gpt2-from-scratch", "batch": 21, "seq_len": 1024})"))});
  return list;
}

std::vector<NamedConfig> spread() {
  std::vector<NamedConfig> list = combinations();
  for (NamedConfig& odd : oddities()) list.push_back(std::move(odd));
  return list;
}

}  // namespace whatfits::testing
