#include "whatfits/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/json_text.h"
#include "config/sections.h"
#include "config/text.h"
#include "models/hf/families.h"
#include "torch/kernel_sizes.h"

namespace whatfits {
namespace {

using config::FixedWord;
using config::only_supported;
using config::Reader;
using nlohmann::json;

/// Families whose code has no attention but the one written out.
bool eager_only(const std::string& model_type) { return model_type == "bloom" || model_type == "gptj"; }

// A key whose only value so far is null. `known` tells the contract's other values from nonsense.
template <typename Known>
void only_null(Reader& reader, std::string_view key, const char* must, Known known) {
  const json* value = reader.find(key);
  if (value == nullptr || value->is_null()) return;
  if (known(*value)) {
    reader.unsupported(key, *value, only_supported({"null"}));
  } else {
    reader.not_allowed(key, *value, must);
  }
}

void only_word(Reader& reader, const FixedWord& fixed) {
  std::size_t index = 0;
  reader.word(fixed.key, {{fixed.value}, fixed.later}, index);
}

// "all", "all-but-embeddings" or "last:N".
void read_trainable(Reader& request, const ModelConfig& model, Trainable& out) {
  const json* value = request.find("trainable");
  if (value == nullptr) return;
  const auto* text = value->get_ptr<const std::string*>();
  if (text != nullptr && *text == "all") {
    out = {};
    return;
  }
  if (text != nullptr && *text == "all-but-embeddings") {
    out.what = Trainable::What::all_but_embeddings;
    return;
  }
  constexpr std::string_view kLast = "last:";
  std::int64_t blocks = 0;
  bool number =
      text != nullptr && text->size() > kLast.size() && text->size() < kLast.size() + 6 && text->compare(0, kLast.size(), kLast) == 0;
  for (std::size_t i = kLast.size(); number && i < text->size(); ++i) {
    number = (*text)[i] >= '0' && (*text)[i] <= '9';
    blocks = 10 * blocks + ((*text)[i] - '0');
  }
  if (number && blocks >= 1 && blocks <= model.n_layer) {
    out.what = Trainable::What::last;
    out.blocks = blocks;
    return;
  }
  request.not_allowed(
      "trainable", *value,
      "must be all, all-but-embeddings or last:N, with N from 1 to the model's " + std::to_string(model.n_layer) + " blocks");
}

template <typename Read>
void section(Reader& request, const char* key, std::vector<Problem>& problems, Read read) {
  const json* value = request.find(key);
  if (value == nullptr) return;
  if (!value->is_object()) return request.not_allowed(key, *value, "must be an object");
  Reader reader(*value, std::string(key) + ".", problems);
  read(reader);
  reader.finish();
}

void read_allocator(Reader& reader, AllocatorConfig& out) {
  reader.boolean("expandable_segments", out.expandable_segments);
  if (const json* value = reader.find("max_split_size_mib"); value != nullptr && !value->is_null()) {
    reader.integer("max_split_size_mib", 20, limits::memory_mib, out.max_split_size_mib);  // more than 20: PyTorch's own limit
    if (out.max_split_size_mib == 20) reader.not_allowed("max_split_size_mib", *value, "must be null or more than 20");
  }
  std::int64_t divisions = 0;
  if (reader.integer("roundup_power2_divisions", 0, 64, divisions)) {
    if ((divisions & (divisions - 1)) != 0) {
      reader.not_allowed("roundup_power2_divisions", *reader.find("roundup_power2_divisions"), "must be 0 or a power of two, at most 64");
    } else {
      out.roundup_power2_divisions = divisions;
    }
  }
  if (const json* value = reader.find("garbage_collection_threshold"); value != nullptr && !value->is_null()) {
    if (value->is_number() && *value >= 0 && *value < 1) {
      out.garbage_collection_threshold = value->get<double>();
    } else {
      reader.not_allowed("garbage_collection_threshold", *value, "must be a number from 0 to below 1");
    }
  }
}

void read_script(Reader& reader, Script& out) {
  reader.integer("warmup_matmul", 0, limits::warmup_matmul, out.warmup_matmul);
  reader.choice("outputs", config::outputs_words(), out.outputs);
  reader.choice("attention_mask", config::attention_mask_words(), out.attention_mask);
  std::size_t index = 0;
  if (reader.word("zero_grad_at", config::zero_grad_at_words(), index)) out.zero_grad_at_begin = index == 1;
  reader.choice("loss", config::script_loss_words(), out.loss);
  if (reader.word("data", config::data_words(), index)) out.data_once = index == 1;
  const json* value = reader.find("use_cache");
  bool use_cache = false;
  if (value != nullptr && !value->is_null() && reader.boolean("use_cache", use_cache)) out.use_cache = use_cache;
}

void read_probability(Reader& reader, const char* key, double& out) {
  const json* value = reader.find(key);
  if (value == nullptr) return;
  if (value->is_number() && *value >= 0 && *value < 1) {
    out = value->get<double>();
  } else {
    reader.not_allowed(key, *value, "must be a probability below 1");
  }
}

void read_lora(Reader& reader, Lora& out) {
  if (reader.find("rank") == nullptr) reader.statement("rank", "is missing; it must be a whole number from 1 to 4096");
  reader.integer("rank", 1, 4096, out.rank);
  const json* targets = reader.find("targets");
  bool names = targets != nullptr && targets->is_array() && !targets->empty() && targets->size() <= 64;
  for (std::size_t i = 0; names && i < targets->size(); ++i) {
    const auto* name = (*targets)[i].get_ptr<const std::string*>();
    names = name != nullptr && !name->empty() && name->size() <= limits::name_bytes;
    if (names) out.targets.push_back(*name);
  }
  if (!names) reader.statement("targets", "must be a list of the model's linear layers, such as [\"q_proj\", \"v_proj\"]");
  read_probability(reader, "dropout", out.dropout);
  std::size_t index = 0;
  if (reader.word("adapter_dtype", {{"fp32", "base"}, {}}, index)) out.base_dtype = index == 1;
  only_null(reader, "base", "must be null", [](const json& value) { return value == "nf4" || value == "int8"; });
}

void read_parallel(Reader& reader, Parallel& out) {
  if (reader.find("strategy") == nullptr) reader.statement("strategy", "is missing; it must be ddp or fsdp");
  reader.choice("strategy", config::strategy_words(), out.strategy);
  if (reader.find("gpus") == nullptr)
    reader.statement("gpus", "is missing; it must be a whole number from 2 to " + std::to_string(limits::gpus));
  reader.integer("gpus", 2, limits::gpus, out.gpus);
  for (const char* degree : {"tensor", "pipeline", "sequence"}) {
    std::int64_t ways = 1;
    if (reader.integer(degree, 1, limits::gpus, ways) && ways != 1) {
      reader.unsupported(degree, *reader.find(degree), only_supported({"1"}));
    }
  }
}

// What of several cards is replayed: what recorded runs have shown.
void check_parallel(Reader& request, const Config& config) {
  if (!config.parallel) return;
  if (config.engine != Engine::torch) return request.statement("parallel", "is replayed with engine torch only");
  if (config.parallel->strategy != Parallel::Strategy::fsdp) return;
  const auto refuse = [&request](const char* key, std::string_view value, const char* why) {
    request.not_allowed(key, json(std::string(value)), std::string(why) + " with parallel.strategy fsdp");
  };
  if (config.precision == Precision::amp_fp16)
    refuse("precision", "amp-fp16", "must be fp32, bf16, fp16 or amp-bf16 (FSDP2 has no gradient scaler of its own)");
  if (config.precision == Precision::amp_bf16 && config.model.model_type == "olmo") {
    refuse("precision", "amp-bf16", "must be fp32, bf16 or fp16 for OLMo, whose blocks take rotary embeddings in float32,");
  }
  if (config.checkpointing == Checkpointing::full_reentrant) refuse("checkpointing", "full-reentrant", "must be none or full");
  if (config.checkpointing == Checkpointing::selective) refuse("checkpointing", "selective", "must be none or full");
  if (config.clip_grad_norm) refuse("clip_grad_norm", "true", "must be false");
  if (config.lora) request.statement("lora", "must be null with parallel.strategy fsdp");
  if (!(config.trainable == Trainable{})) request.statement("trainable", "must be all with parallel.strategy fsdp");
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

// What PyTorch itself refuses: a backend that the script insists on without a kernel for the type, the card or the head size; and a
// checkpoint that saves other tensors when its block runs again. For that happens in backward, after the script has left the
// sdpa_kernel() that surrounds forward, with the backend that PyTorch picks by itself. Flash and memory-efficient attention save alike
// where the latter need not round up the length of its log-sum-exp.
void check_attention(Reader& request, const Config& config) {
  if (config.engine != Engine::torch || config.attention == Attention::eager || config.attention == Attention::sdpa) return;
  using torch::AttentionBackend;
  const AttentionBackend forced = config.attention == Attention::sdpa_math        ? AttentionBackend::math
                                  : config.attention == Attention::sdpa_efficient ? AttentionBackend::efficient
                                                                                  : AttentionBackend::flash;
  const torch::AttentionCase facts{
      .element_bytes = config.precision == Precision::fp32 ? Bytes{4} : Bytes{2},
      .bfloat = config.precision == Precision::bf16 || config.precision == Precision::amp_bf16,
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
  if (forced == AttentionBackend::math) {
    request.not_allowed("attention", word, "must be sdpa or eager with checkpointing full: " + reason);
  } else if (config.seq_len % 32 != 0) {
    request.not_allowed("seq_len", config.seq_len,
                        "must be a multiple of 32 with attention sdpa-efficient and checkpointing full: " + reason);
  }
}

// What Transformers or PyTorch refuse, or what would leave parameters without a gradient.
void check_hugging_face(Reader& request, const Config& config) {
  if (config.model.model_type == "gpt2-from-scratch") return;
  const bool frozen_inputs = config.trainable.what != Trainable::What::all && !config.lora;
  if (config.checkpointing == Checkpointing::full_reentrant && frozen_inputs) {
    request.not_allowed("checkpointing", "full-reentrant",
                        "must be none or full where the embeddings are frozen: a reentrant checkpoint gives no gradients then");
  }
  if (config.checkpointing == Checkpointing::selective && frozen_inputs) {
    request.not_allowed("checkpointing", "selective",
                        "must be none or full where parameters are frozen: what blocks keep that no gradient reaches is up to Python's "
                        "garbage collector");
  }
  if (config.lora && config.trainable.what != Trainable::What::all) {
    request.statement("trainable", "must be all with lora, which freezes the base itself");
  }
  if (config.lora) {
    const auto& linears = hf::linear_names(config.model.model_type);
    for (const std::string& target : config.lora->targets) {
      if (std::find(linears.begin(), linears.end(), target) == linears.end()) {
        request.not_allowed("lora.targets", target, "must be among the model's linear layers: " + config::listed(linears, "and"));
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

void read_request(const json& object, Config& out, std::vector<Problem>& problems) {
  Reader request(object, "", problems);
  const auto holds = [&problems](auto read) {
    const std::size_t before = problems.size();
    read();
    return problems.size() == before;
  };

  const bool model_holds = holds([&] { config::read_model(request, out.model, problems); });
  request.integer("batch", 1, limits::batch, out.batch);
  out.seq_len = std::min<std::int64_t>(out.model.n_positions, 2048);
  if (request.integer("seq_len", 1, limits::positions, out.seq_len) && model_holds && out.seq_len > out.model.n_positions) {
    request.not_allowed("seq_len", *request.find("seq_len"),
                        "must be at most " + std::to_string(out.model.n_positions) + ", the model's n_positions");
  }
  request.choice("precision", config::precision_words(), out.precision);
  if (out.model.model_type != "gpt2-from-scratch") out.attention = eager_only(out.model.model_type) ? Attention::eager : Attention::sdpa;
  request.choice("attention", config::attention_words(), out.attention);
  request.choice("optimizer", config::optimizer_words(), out.optimizer);
  request.choice("checkpointing", config::checkpointing_words(), out.checkpointing);
  only_word(request, {"loss", "default", {"fused-linear", "chunked"}});
  request.integer("grad_accumulation", 1, limits::grad_accumulation, out.grad_accumulation);
  request.boolean("clip_grad_norm", out.clip_grad_norm);
  request.choice("zero_grad", config::zero_grad_words(), out.zero_grad);
  if (const json* value = request.find("lora"); value != nullptr && !value->is_null()) {
    Lora lora;
    section(request, "lora", problems, [&](Reader& reader) { read_lora(reader, lora); });
    out.lora = std::move(lora);
  }
  read_trainable(request, out.model, out.trainable);
  if (const json* value = request.find("dropout"); value != nullptr && !value->is_null()) {
    double probability = 0;
    read_probability(request, "dropout", probability);
    out.dropout = probability;
  }
  if (const json* value = request.find("parallel"); value != nullptr && !value->is_null()) {
    Parallel parallel;
    section(request, "parallel", problems, [&](Reader& reader) { read_parallel(reader, parallel); });
    out.parallel = parallel;
  }
  section(request, "allocator", problems, [&](Reader& reader) { read_allocator(reader, out.allocator); });
  const bool engine_holds = holds([&] { request.choice("engine", config::engine_words(), out.engine); });
  request.version("torch", out.torch);
  request.version("transformers", out.transformers);
  config::read_device(request, engine_holds && out.engine == Engine::torch, out.device, problems);
  request.integer("steps", 1, limits::steps, out.steps);
  if (out.model.model_type != "gpt2-from-scratch") out.script.warmup_matmul = 0;
  section(request, "script", problems, [&](Reader& reader) { read_script(reader, out.script); });
  if (problems.empty()) {  // they compare values that must each hold
    check_script(request, out);
    check_hugging_face(request, out);
    check_attention(request, out);
    check_parallel(request, out);
    check_size(request, out);
  }
  request.finish();
}

ParsedRequest parse_value(const json& request, std::vector<Problem> problems) {
  ParsedRequest parsed;
  parsed.problems = std::move(problems);
  if (request.is_object()) {
    read_request(request, parsed.config, parsed.problems);
  } else {
    parsed.problems.push_back({"request", config::shown(request), "must be a JSON object", Problem::Kind::not_allowed});
  }
  if (!parsed.problems.empty()) parsed.config = Config();
  return parsed;
}

}  // namespace

std::string to_line(const Problem& problem) {
  switch (problem.kind) {
    case Problem::Kind::not_allowed:
      return problem.key + ": \"" + problem.value + "\" is not allowed: " + problem.message;
    case Problem::Kind::unsupported:
      return problem.key + ": \"" + problem.value + "\" is not supported yet: " + problem.message;
    case Problem::Kind::statement:
      break;
  }
  return problem.key + ": " + problem.message;
}

ParsedRequest parse_request(std::string_view json_text) {
  json value;
  std::vector<Problem> problems;
  if (!config::parse_text(json_text, value, problems)) return {Config(), std::move(problems)};
  return parse_value(value, std::move(problems));
}

ParsedRequest parse_request(const nlohmann::ordered_json& request) { return parse_request(json(request)); }

ParsedRequest parse_request(const json& request) {
  if (!config::nests_within_limit(request)) return {Config(), {config::too_deep()}};
  return parse_value(request, {});
}

}  // namespace whatfits
