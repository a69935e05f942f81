#include "whatfits/request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/json_text.h"
#include "config/sections.h"
#include "config/text.h"
#include "models/hf/families.h"

namespace whatfits {
namespace {

using config::json;
using config::only_supported;
using config::Reader;

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

void read_lora(Reader& reader, const std::string& model_type, Lora& out) {
  if (reader.find("rank") == nullptr) reader.statement("rank", "is missing; it must be a whole number from 1 to 4096");
  reader.integer("rank", 1, 4096, out.rank);
  const json* targets = reader.find("targets");
  const bool all = targets != nullptr && *targets == "all-linear";
  if (all) {
    for (const std::string_view linear : hf::linear_names(model_type)) out.targets.emplace_back(linear);
  }
  bool names = targets != nullptr && targets->is_array() && !targets->empty() && targets->size() <= 64;
  for (std::size_t i = 0; names && i < targets->size(); ++i) {
    const auto* name = (*targets)[i].get_ptr<const std::string*>();
    names = name != nullptr && !name->empty() && name->size() <= limits::name_bytes;
    if (names) out.targets.push_back(*name);
  }
  if (!names && !all) {
    reader.statement("targets", "must be \"all-linear\" or a list of the model's linear layers, such as [\"q_proj\", \"v_proj\"]");
  }
  read_probability(reader, "dropout", out.dropout);
  std::size_t index = 0;
  if (reader.word("adapter_dtype", {{"fp32", "base"}, {}}, index)) out.base_dtype = index == 1;
  if (const json* base = reader.find("base"); base != nullptr && !base->is_null()) {
    if (*base == "nf4") {
      out.nf4 = true;
    } else if (*base == "int8") {
      reader.unsupported("base", *base, only_supported({"null", "nf4"}));
    } else {
      reader.not_allowed("base", *base, "must be null or nf4");
    }
  }
  if (reader.find("prepare") != nullptr && !out.nf4)
    reader.statement("prepare", "belongs to a base in 4 bits; leave it out with base null");
  reader.boolean("prepare", out.prepare);
}

void read_parallel(Reader& reader, Parallel& out) {
  if (reader.find("strategy") == nullptr) reader.statement("strategy", "is missing; it must be ddp, fsdp, zero1, zero2 or zero3");
  reader.choice("strategy", config::strategy_words(), out.strategy);
  if (reader.find("gpus") == nullptr)
    reader.statement("gpus", "is missing; it must be a whole number from 2 to " + std::to_string(limits::gpus));
  reader.integer("gpus", 2, limits::gpus, out.gpus);
  reader.integer("tensor", 1, limits::gpus, out.tensor);
  for (const char* degree : {"pipeline", "sequence"}) {
    std::int64_t ways = 1;
    if (reader.integer(degree, 1, limits::gpus, ways) && ways != 1) {
      reader.unsupported(degree, *reader.find(degree), only_supported({"1"}));
    }
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
  if (out.model.model_type != "gpt2-from-scratch")
    out.attention = config::eager_only(out.model.model_type) ? Attention::eager : Attention::sdpa;
  request.choice("attention", config::attention_words(), out.attention);
  request.choice("optimizer", config::optimizer_words(), out.optimizer);
  request.choice("checkpointing", config::checkpointing_words(), out.checkpointing);
  request.choice("loss", config::loss_words(), out.loss);
  request.integer("loss_chunks", 1, limits::loss_chunks, out.loss_chunks);
  request.integer("grad_accumulation", 1, limits::grad_accumulation, out.grad_accumulation);
  request.boolean("clip_grad_norm", out.clip_grad_norm);
  request.choice("zero_grad", config::zero_grad_words(), out.zero_grad);
  if (const json* value = request.find("lora"); value != nullptr && !value->is_null()) {
    Lora lora;
    section(request, "lora", problems, [&](Reader& reader) { read_lora(reader, out.model.model_type, lora); });
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
  config::read_calibration(request, out, problems);
  request.integer("steps", 1, limits::steps, out.steps);
  if (out.model.model_type != "gpt2-from-scratch") out.script.warmup_matmul = 0;
  section(request, "script", problems, [&](Reader& reader) { read_script(reader, out.script); });
  if (problems.empty()) {  // they compare values that must each hold
    config::check_together(request, out);
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

ParsedRequest parse_request(const nlohmann::json& request) { return parse_request(json(request)); }

ParsedRequest parse_request(const json& request) {
  if (!config::nests_within_limit(request)) return {Config(), {config::too_deep()}};
  return parse_value(request, {});
}

}  // namespace whatfits
