// What must hold between values of a request that are right one by one.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/sections.h"
#include "config/text.h"
#include "models/hf/families.h"
#include "torch/kernel_sizes.h"

namespace whatfits::config {
namespace {

// Matrices shared by all ranks: the plan of one family's code, with one optimizer.
void check_tensor(Reader& request, const Config& config) {
  const ModelConfig& m = config.model;
  const std::int64_t ways = config.parallel->tensor;
  const auto must = [&](bool wrong, const char* key, std::string_view value, const char* why) {
    if (wrong) request.not_allowed(key, json(std::string(value)), std::string(why) + " with parallel.tensor");
  };
  must(config.parallel->strategy != Parallel::Strategy::ddp, "parallel.strategy", to_string(config.parallel->strategy),
       "must be ddp, which has nothing left to do,");
  if (ways != config.parallel->gpus) {
    request.not_allowed("parallel.tensor", ways, "must be 1 or parallel.gpus: matrices are shared by all ranks or by none");
  }
  const std::string& type = m.model_type;
  must(type != "llama" && type != "mistral" && type != "qwen3", "model", type, "must be of type llama, mistral or qwen3");
  must(m.tie_word_embeddings, "model.tie_word_embeddings", "true", "must be false");
  must(m.attention_bias, "model.attention_bias", "true", "must be false");
  must(m.mlp_bias, "model.mlp_bias", "true", "must be false");
  for (const std::int64_t size : {m.n_head, m.n_kv_head, m.n_inner, m.vocab_size}) {
    if (size % ways == 0) continue;
    request.not_allowed("parallel.tensor", ways, "must divide the model's heads, key heads, MLP width and vocabulary");
    break;
  }
  must(config.precision == Precision::amp_fp16, "precision", "amp-fp16", "must be fp32, bf16, fp16 or amp-bf16");
  must(config.optimizer != Optimizer::adamw, "optimizer", to_string(config.optimizer), "must be adamw");
  must(config.clip_grad_norm, "clip_grad_norm", "true", "must be false");
  must(config.zero_grad != ZeroGrad::set_to_none, "zero_grad", "zero-fill", "must be set-to-none");
  if (config.lora) request.statement("lora", "must be null with parallel.tensor");
  if (!(config.trainable == Trainable{})) request.statement("trainable", "must be all with parallel.tensor");
}

// What of several cards is replayed: what recorded runs have shown.
void check_parallel(Reader& request, const Config& config) {
  if (!config.parallel) return;
  if (config.engine != Engine::torch) return request.statement("parallel", "is replayed with engine torch only");
  const Parallel::Strategy strategy = config.parallel->strategy;
  if (config.parallel->tensor > 1) return check_tensor(request, config);
  if (strategy == Parallel::Strategy::ddp) return;
  const std::string with = " with parallel.strategy " + std::string(to_string(strategy));
  const auto refuse = [&](const char* key, std::string_view value, const char* why) {
    request.not_allowed(key, json(std::string(value)), why + with);
  };
  if (config.lora) request.statement("lora", "must be null" + with);
  if (!(config.trainable == Trainable{})) request.statement("trainable", "must be all" + with);
  switch (config.optimizer) {
    case Optimizer::adamw:
    case Optimizer::adamw_fused:
    case Optimizer::adamw_for_loop:
    case Optimizer::sgd:
    case Optimizer::sgd_momentum:
      break;
    default:
      refuse("optimizer", to_string(config.optimizer), "must be adamw, adamw-fused, adamw-for-loop, sgd or sgd-momentum");
  }
  if (!config.parallel->fully_sharded()) return;
  if (config.precision == Precision::amp_fp16)
    refuse("precision", "amp-fp16", "must be fp32, bf16, fp16 or amp-bf16 (FSDP2 has no gradient scaler of its own)");
  if (config.precision == Precision::amp_bf16 && config.model.model_type == "olmo") {
    refuse("precision", "amp-bf16", "must be fp32, bf16 or fp16 for OLMo, whose blocks take rotary embeddings in float32,");
  }
  if (config.checkpointing == Checkpointing::full_reentrant) refuse("checkpointing", "full-reentrant", "must be none or full");
  if (config.checkpointing == Checkpointing::selective) refuse("checkpointing", "selective", "must be none or full");
  if (config.clip_grad_norm) refuse("clip_grad_norm", "true", "must be false");
}

// What only Hugging Face's models are replayed with.
void check_script(Reader& request, const Config& config) {
  if (config.model.model_type != "gpt2-from-scratch") return;
  const char* only = "is replayed with Hugging Face's models only, not with gpt2-from-scratch";
  Script fresh;
  fresh.warmup_matmul = config.script.warmup_matmul;
  if (!(config.script == fresh)) request.statement("script", std::string(only) + " (all but warmup_matmul)");
  if (config.lora) request.statement("lora", only);
  if (!(config.trainable == Trainable{})) request.statement("trainable", only);
  if (config.dropout.value_or(0) > 0) request.statement("dropout", only);
  if (config.precision == Precision::fp16) request.statement("precision", std::string("fp16 ") + only);
  if (config.checkpointing == Checkpointing::full_reentrant) request.statement("checkpointing", std::string("full-reentrant ") + only);
}

std::string version_of(int compute_capability) {
  return std::to_string(compute_capability / 10) + "." + std::to_string(compute_capability % 10);
}

// Why flash attention, the only backend that the script allows, has no kernel; empty if it has one.
std::string no_flash(const torch::AttentionCase& facts, const Device& card) {
  if (facts.element_bytes == 4) return "needs precision bf16, amp-bf16 or amp-fp16; PyTorch has no fp32 kernel for it";
  const int capability = card.compute_capability;
  if (capability < 80 || capability > 90) {
    return "needs a card of compute capability 8.0 to 9.0; " + card.name + " has " + version_of(capability);
  }
  if (torch::takes_flash(facts, capability)) return {};
  const bool limited = facts.head_size <= 256;
  return "needs heads (n_embd / n_head) of at most " + std::string(limited ? "192, or of 225 to 256," : "256") +
         (limited ? " to train on compute capability " + version_of(capability) : "") + "; the model's are " +
         std::to_string(facts.head_size);
}

// The same for memory-efficient attention.
std::string no_efficient(const torch::AttentionCase& facts, const Device& card) {
  const int capability = card.compute_capability;
  if (capability > 90) return "needs a card of compute capability 5.0 to 9.0; " + card.name + " has " + version_of(capability);
  if (facts.bfloat && capability < 80) {
    return "needs precision fp32 or amp-fp16, or a card of compute capability 8.0 to 9.0; " + card.name + " has " + version_of(capability);
  }
  if (torch::takes_efficient(facts, capability)) return {};
  return "needs heads (n_embd / n_head) of a multiple of " + std::to_string(torch::efficient_alignment(facts.element_bytes, capability)) +
         " with this precision and card; the model's are " + std::to_string(facts.head_size);
}

// What flash-attn has no kernel for, and what of it is not replayed.
void check_flash_package(Reader& request, const Config& config) {
  const auto refuse = [&request](std::string why) { request.not_allowed("attention", "flash-attention-2", std::move(why)); };
  const auto must = [&](bool holds, const char* why) {
    if (!holds) refuse(why);
  };
  const std::string& type = config.model.model_type;
  must(type != "gpt2-from-scratch", "is replayed with Hugging Face's models only, not with gpt2-from-scratch");
  must(type != "falcon", "must be another for Falcon, whose own class for it is not replayed");
  must(config.precision != Precision::fp32, "needs precision bf16, fp16, amp-bf16 or amp-fp16");
  if (config.device.compute_capability < 80)
    refuse("needs a card of compute capability 8.0 or more; " + config.device.name + " has " +
           version_of(config.device.compute_capability));
  must(config.script.attention_mask != Script::AttentionMask::padded,
       "is replayed without padding: script.attention_mask must be none or ones");
  must(config.checkpointing != Checkpointing::selective, "must be another with checkpointing selective");
  const std::int64_t head = config.model.head_dim > 0 ? config.model.head_dim : config.model.n_embd / config.model.n_head;
  if (head % 8 != 0 || head > 256 || (head > 128 && head % 64 != 0))
    refuse("needs heads of a multiple of 8 up to 128, of 192 or of 256; the model's are " + std::to_string(head));
}

// What PyTorch itself refuses: a backend that the script insists on without a kernel for the type, the card or the head size; and a
// checkpoint that saves other tensors when its block runs again. For that happens in backward, after the script has left the
// sdpa_kernel() that surrounds forward, with the backend that PyTorch picks by itself. Flash and memory-efficient attention save alike
// where the latter need not round up the length of its log-sum-exp.
void check_attention(Reader& request, const Config& config) {
  if (config.engine != Engine::torch || config.attention == Attention::eager || config.attention == Attention::sdpa) return;
  if (config.attention == Attention::flash_attention_2) return check_flash_package(request, config);
  using torch::AttentionBackend;
  const AttentionBackend forced = config.attention == Attention::sdpa_math        ? AttentionBackend::math
                                  : config.attention == Attention::sdpa_efficient ? AttentionBackend::efficient
                                                                                  : AttentionBackend::flash;
  // Between 4-bit layers all is float32 once the model is prepared, but for what autocast casts.
  const bool wide = config.lora && config.lora->nf4 && config.lora->prepare &&
                    (config.precision == Precision::bf16 || config.precision == Precision::fp16);
  const torch::AttentionCase facts{
      .element_bytes = config.precision == Precision::fp32 || wide ? Bytes{4} : Bytes{2},
      .bfloat = !wide && (config.precision == Precision::bf16 || config.precision == Precision::amp_bf16),
      .head_size = config.model.head_dim > 0 ? config.model.head_dim : config.model.n_embd / config.model.n_head};
  const json word(std::string(to_string(config.attention)));
  const std::string why = forced == AttentionBackend::flash       ? no_flash(facts, config.device)
                          : forced == AttentionBackend::efficient ? no_efficient(facts, config.device)
                                                                  : std::string();
  if (!why.empty()) return request.not_allowed("attention", word, why);

  const AttentionBackend picked = torch::attention_backend(facts, config.device.compute_capability);
  if (config.checkpointing == Checkpointing::none || picked == forced) return;
  const std::string reason = "a checkpointed block runs again outside of the script's sdpa_kernel, where PyTorch picks " +
                             std::string(picked == AttentionBackend::flash ? "flash" : "memory-efficient") +
                             " attention, which saves other tensors";
  if (forced == AttentionBackend::math || config.checkpointing == Checkpointing::selective) {
    request.not_allowed("attention", word,
                        "must be sdpa or eager with checkpointing " + std::string(to_string(config.checkpointing)) + ": " + reason);
  } else if (config.seq_len % 32 != 0) {
    request.not_allowed("seq_len", config.seq_len,
                        "must be a multiple of 32 with attention sdpa-efficient and checkpointing full: " + reason);
  }
}

// What Transformers or PyTorch refuse, or what would leave parameters without a gradient.
void check_hugging_face(Reader& request, const Config& config) {
  if (config.model.model_type == "gpt2-from-scratch") return;
  if (config.checkpointing == Checkpointing::selective && config.trainable.what != Trainable::What::all) {
    request.not_allowed("checkpointing", "selective", "is not replayed where parameters are frozen: must be none, full or full-reentrant");
  }
  if (config.lora && config.trainable.what != Trainable::What::all) {
    request.statement("trainable", "must be all with lora, which freezes the base itself");
  }
  if (config.lora) {
    const auto& linears = hf::linear_names(config.model.model_type);
    for (const std::string& target : config.lora->targets) {
      if (std::find(linears.begin(), linears.end(), target) == linears.end()) {
        request.not_allowed("lora.targets", target, "must be among the model's linear layers: " + listed(linears, "and"));
      }
    }
  }
  if (config.seq_len < 2 && config.script.loss != Script::Loss::model) {
    request.not_allowed("seq_len", config.seq_len, "must be at least 2 where the script drops the last position");
  }
  if (config.precision == Precision::amp_fp16 && config.optimizer == Optimizer::none) {
    request.not_allowed("optimizer", "none", "needs a precision without a gradient scaler");
  }
  if (eager_only(config.model.model_type) && config.attention != Attention::eager) {
    request.not_allowed("attention", json(std::string(to_string(config.attention))),
                        "must be eager: the code of " + config.model.model_type + " has no other");
  }
  const bool falcon = config.model.model_type == "falcon";
  const bool masked = falcon || config.script.attention_mask == Script::AttentionMask::padded ||
                      (config.model.sliding_window > 0 && config.seq_len >= config.model.sliding_window);
  if (masked && config.attention == Attention::sdpa_flash) {
    request.not_allowed("attention", "sdpa-flash", "has no kernel for a mask, which this model and script make");
  }
  const bool fewer_keys = falcon ? !config.model.new_architecture && config.model.n_kv_head != config.model.n_head
                                 : !masked && config.model.n_kv_head != config.model.n_head;
  if (fewer_keys && config.attention == Attention::sdpa_efficient) {
    request.not_allowed("attention", "sdpa-efficient", "has no kernel for fewer key heads than query heads");
  }
}

// A base in four bits: what Transformers and bitsandbytes do not quantise, and what has not been tried.
void check_quantised(Reader& request, const Config& config) {
  if (!config.lora || !config.lora->nf4) return;
  const auto must = [&request](bool wrong, const char* why) {
    if (wrong) request.not_allowed("lora.base", "nf4", why);
  };
  must(config.model.model_type == "falcon",
       "must be null for Falcon: Transformers leaves out its linear layers, which are of a class of their own");
  must(config.checkpointing == Checkpointing::selective, "must be null with checkpointing selective");
  must(config.parallel.has_value(), "must be null with parallel");
}

// Losses that have the head in them, in a forward that replaces the model's own.
void check_loss(Reader& request, const Config& config) {
  if (config.loss != Loss::chunked && request.find("loss_chunks") != nullptr) {
    request.not_allowed("loss_chunks", config.loss_chunks, "belongs to loss chunked; leave it out with another");
  }
  if (config.loss == Loss::standard) return;
  const std::string& type = config.model.model_type;
  const json word(std::string(to_string(config.loss)));
  const auto must = [&](bool wrong, const std::string& why) {
    if (wrong) request.not_allowed("loss", word, why);
  };
  if (config.loss == Loss::fused_linear) {
    static const std::vector<std::string_view> kPatched{"llama",     "mistral", "mixtral", "qwen2", "qwen3",
                                                        "qwen3_moe", "gemma",   "gemma2",  "phi3"};
    must(std::find(kPatched.begin(), kPatched.end(), type) == kPatched.end(),
         "must be default or chunked for " + type + ": Liger's is replayed for " + listed(kPatched, "and"));
  } else {
    must(type == "gpt2-from-scratch", "is replayed with Hugging Face's models only, not with gpt2-from-scratch");
    must(config.model.softcap_logits, "must be default or fused-linear for a model that caps its logits");
    must(config.seq_len < 2, "needs a seq_len of at least 2");
  }
  must(config.script.loss != Script::Loss::model, "needs script.loss model: it is computed in the model's forward");
  must(config.parallel.has_value(), "must be default with parallel");
  must(config.engine != Engine::torch, "is replayed with engine torch only");
  const std::int64_t tokens = config.batch * config.seq_len;
  const std::int64_t chunk = torch::fused_loss_chunk(tokens, config.model.vocab_size, config.model.n_embd);
  const std::int64_t chunks = config.loss == Loss::chunked ? config.loss_chunks : (tokens + chunk - 1) / chunk;
  must(chunks * config.grad_accumulation > limits::recorded_blocks,
       "has " + std::to_string(chunks) + " chunks a micro-batch: chunks * grad_accumulation must be at most " +
           std::to_string(limits::recorded_blocks));
}

// What the engines that replay nothing have a table or a form for.
void check_engine(Reader& request, const Config& config) {
  const bool llm_c = config.engine == Engine::llm_c;
  if (!llm_c && config.engine != Engine::mlx) return;
  const std::string with = " with engine " + std::string(to_string(config.engine));
  const auto must = [&](bool holds, const char* key, std::string_view value, const char* allowed) {
    if (!holds) request.not_allowed(key, json(std::string(value)), std::string("must be ") + allowed + with);
  };
  const ModelConfig& model = config.model;
  const bool gpt2 = model.model_type == "gpt2-from-scratch" ||
                    (model.model_type == "gpt2" && model.n_inner == 4 * model.n_embd && model.tie_word_embeddings);
  if (llm_c) must(gpt2, "model", model.preset.empty() ? model.model_type : model.preset, "a GPT-2 with a tied head and an MLP of 4·n_embd");
  must(config.precision == Precision::fp32 || config.precision == Precision::bf16, "precision", to_string(config.precision),
       "fp32 or bf16");
  const Optimizer o = config.optimizer;
  const bool known = o == Optimizer::adam || o == Optimizer::sgd || o == Optimizer::sgd_momentum || o == Optimizer::lion;
  must(o == Optimizer::adamw || (!llm_c && known), "optimizer", to_string(o), llm_c ? "adamw" : "adamw, adam, sgd, sgd-momentum or lion");
  const bool plain = config.checkpointing == Checkpointing::none;
  if (llm_c && config.precision == Precision::fp32) {
    must(plain, "checkpointing", to_string(config.checkpointing), "none in fp32");
  } else {
    must(plain || config.checkpointing == Checkpointing::full || (llm_c && config.checkpointing == Checkpointing::selective),
         "checkpointing", to_string(config.checkpointing), llm_c ? "none, selective (-r 1) or full (-r 2)" : "none or full");
  }
  const bool forced = config.attention != Attention::eager && config.attention != Attention::sdpa;
  must(!forced, "attention", to_string(config.attention), "eager or sdpa");
  if (config.lora) request.statement("lora", "must be null" + with);
  if (!(config.trainable == Trainable{})) request.statement("trainable", "must be all" + with);
  if (config.dropout.value_or(0) > 0) request.statement("dropout", "must be 0 or null" + with);
}

// The largest value of `member` in [1, now] for which the bytes stay in bounds; 0 if there is none. The bound grows with each.
std::int64_t largest_in_bounds(const Config& start, std::int64_t Config::* member) {
  Config config = start;
  std::int64_t good = 0;
  std::int64_t bad = config.*member;
  while (bad - good > 1) {
    config.*member = good + (bad - good) / 2;
    (bytes_bound(config) < limits::step_bytes ? good : bad) = config.*member;
  }
  return good;
}

// Sizes that hold one by one and are too much together.
void check_size(Reader& request, const Config& config) {
  const std::string bytes = "a step's tensors must stay below 2^60 bytes";
  if (bytes_bound(config) >= limits::step_bytes) {
    Config one = config;
    one.batch = 1;
    if (const auto most = largest_in_bounds(config, &Config::batch); most > 0) {
      request.not_allowed("batch", config.batch, "must be at most " + std::to_string(most) + " with this model and seq_len: " + bytes);
    } else if (const auto longest = largest_in_bounds(one, &Config::seq_len); longest > 0) {
      request.not_allowed("seq_len", config.seq_len, "must be at most " + std::to_string(longest) + " with this model: " + bytes);
    } else {
      request.statement("model", "is too large: " + bytes);
    }
  }

  const std::int64_t per_step = config.model.n_layer * config.grad_accumulation;  // each within its limit: no overflow
  if (per_step > limits::recorded_blocks) {
    request.not_allowed("grad_accumulation", config.grad_accumulation,
                        "n_layer * grad_accumulation must be at most " + std::to_string(limits::recorded_blocks));
  }
}

}  // namespace

bool eager_only(const std::string& model_type) { return model_type == "bloom" || model_type == "gptj"; }

void check_together(Reader& request, const Config& config) {
  check_script(request, config);
  check_hugging_face(request, config);
  check_quantised(request, config);
  check_loss(request, config);
  check_attention(request, config);
  check_parallel(request, config);
  check_engine(request, config);
  check_size(request, config);
}

}  // namespace whatfits::config
