#include "whatfits/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/json_text.h"
#include "config/sections.h"
#include "config/text.h"
#include "torch/kernel_sizes.h"

namespace whatfits {
namespace {

using config::FixedWord;
using config::only_supported;
using config::Reader;
using nlohmann::json;

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

// The same for 0.
void only_zero(Reader& reader, std::string_view key, double highest, const char* must) {
  const json* value = reader.find(key);
  if (value == nullptr || (value->is_number() && *value == 0)) return;
  if (value->is_number() && *value > 0 && *value <= highest) {
    reader.unsupported(key, *value, only_supported({"0"}));
  } else {
    reader.not_allowed(key, *value, must);
  }
}

void only_word(Reader& reader, const FixedWord& fixed) {
  std::size_t index = 0;
  reader.word(fixed.key, {{fixed.value}, fixed.later}, index);
}

// "all", and for later "all-but-embeddings" and "last:N".
void read_trainable(Reader& request) {
  const json* value = request.find("trainable");
  if (value == nullptr) return;
  const auto* text = value->get_ptr<const std::string*>();
  if (text != nullptr && *text == "all") return;
  const auto is_last_n = [](std::string_view word) {
    if (word.substr(0, 5) != "last:" || word.size() < 6 || word.size() > 10 || word[5] == '0') return false;
    word.remove_prefix(5);
    return std::all_of(word.begin(), word.end(), [](char c) { return c >= '0' && c <= '9'; });
  };
  if (text != nullptr && (*text == "all-but-embeddings" || is_last_n(*text))) {
    request.unsupported("trainable", *value, only_supported({"all"}));
  } else {
    request.not_allowed("trainable", *value, "must be all");
  }
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
  only_null(reader, "max_split_size_mib", "must be null", [](const json& value) { return value.is_number() && value >= 20; });
  only_zero(reader, "roundup_power2_divisions", 64, "must be 0");
  only_zero(reader, "garbage_collection_threshold", 1, "must be 0");
}

void read_script(Reader& reader, Script& out) {
  reader.integer("warmup_matmul", 0, limits::warmup_matmul, out.warmup_matmul);
  for (const FixedWord& fixed : config::fixed_script_words()) only_word(reader, fixed);
  only_null(reader, "use_cache", "must be null", [](const json& value) { return value.is_boolean(); });
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
  const torch::AttentionCase facts{.element_bytes = config.precision == Precision::fp32 ? Bytes{4} : Bytes{2},
                                   .bfloat = config.precision == Precision::bf16 || config.precision == Precision::amp_bf16,
                                   .head_size = config.model.n_embd / config.model.n_head};
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
  request.choice("attention", config::attention_words(), out.attention);
  request.choice("optimizer", config::optimizer_words(), out.optimizer);
  request.choice("checkpointing", config::checkpointing_words(), out.checkpointing);
  only_word(request, {"loss", "default", {"fused-linear", "chunked"}});
  request.integer("grad_accumulation", 1, limits::grad_accumulation, out.grad_accumulation);
  request.boolean("clip_grad_norm", out.clip_grad_norm);
  request.choice("zero_grad", config::zero_grad_words(), out.zero_grad);
  only_null(request, "lora", "must be null", [](const json& value) { return value.is_object(); });
  read_trainable(request);
  only_null(request, "dropout", "must be null", [](const json& value) { return value.is_number() && value >= 0 && value <= 1; });
  only_null(request, "parallel", "must be null", [](const json& value) { return value.is_object(); });
  section(request, "allocator", problems, [&](Reader& reader) { read_allocator(reader, out.allocator); });
  const bool engine_holds = holds([&] { request.choice("engine", config::engine_words(), out.engine); });
  request.version("torch", out.torch);
  request.version("transformers", out.transformers);
  config::read_device(request, engine_holds && out.engine == Engine::torch, out.device, problems);
  request.integer("steps", 1, limits::steps, out.steps);
  section(request, "script", problems, [&](Reader& reader) { read_script(reader, out.script); });
  if (problems.empty()) {  // they compare values that must each hold
    check_attention(request, out);
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
