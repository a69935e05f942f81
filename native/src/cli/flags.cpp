#include "cli/flags.h"

#include <sys/stat.h>

#include <algorithm>

#include "cli/failure.h"
#include "cli/files.h"
#include "text/text.h"
#include "whatfits/presets.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

using nlohmann::json;

// A JSON text from a file or a flag, or the reason why it is none. Depth and repeated keys are only seen in the text, which is
// therefore checked as a request first; whatever that says of single keys is said again, and better, once flags are merged in.
json parsed_json(const std::string& text, const std::string& name) {
  std::vector<std::string> lines;
  for (const Problem& problem : parse_request(text).problems) {
    const bool about_text = problem.key == "request";
    const bool twice = problem.kind == Problem::Kind::statement && problem.message == "is given twice";
    if (about_text || twice) lines.push_back(name + ": " + (about_text ? "" : problem.key + " ") + problem.message);
  }
  if (!lines.empty()) throw Failure(lines);
  return json::parse(text);
}

// A folder too: reading it says that it is one.
bool exists(const std::string& path) {
  struct stat there{};
  return ::stat(path.c_str(), &there) == 0;
}

bool is_known_id(const std::string& key, const std::string& value) {
  if (key == "calibration") return false;
  if (key == "model") {
    const auto presets = model_presets();
    const auto later = models_to_come();
    return std::any_of(presets.begin(), presets.end(), [&](const ModelPreset& preset) { return preset.id == value; }) ||
           std::find(later.begin(), later.end(), value) != later.end();
  }
  const auto presets = device_presets();
  return std::any_of(presets.begin(), presets.end(),
                     [&](const DevicePreset& preset) { return preset.id == value || preset.alias == value; });
}

json preset_value(const Flag& flag, const std::string& value) {
  if (!value.empty() && value.front() == '{') return parsed_json(value, flag.name);
  const bool names_json = value.size() > 5 && value.compare(value.size() - 5, 5, ".json") == 0;
  if (names_json || (!is_known_id(flag.key, value) && exists(value))) {
    return parsed_json(read_text(value, limits::text_bytes), printable(value));
  }
  return value;
}

// "8", "true", "null" and "{…}" are JSON; any other word is text, and the request's language says what it thinks of it.
json loose_value(const Flag& flag, const std::string& value) {
  if (!value.empty() && (value.front() == '{' || value.front() == '[')) {
    std::string object = "{\"value\":";
    object.append(value).append("}");
    return parsed_json(object, flag.name)["value"];
  }
  json parsed = json::parse(value, nullptr, /*allow_exceptions=*/false);
  return parsed.is_discarded() || parsed.is_string() ? json(value) : parsed;
}

json flag_value(const Flag& flag, const std::string& value) {
  switch (flag.kind) {
    case Flag::Kind::preset:
      return preset_value(flag, value);
    case Flag::Kind::text:
      return value;
    case Flag::Kind::value:
    case Flag::Kind::boolean:
      break;
  }
  return loose_value(flag, value);
}

void set(json& request, const std::string& key, json value) {
  const std::size_t dot = key.find('.');
  if (dot == std::string::npos) {
    request[key] = std::move(value);
    return;
  }
  json& section = request[key.substr(0, dot)];
  if (!section.is_null() && !section.is_object()) return;  // a wrong value that the request's check names
  section[key.substr(dot + 1)] = std::move(value);
}

}  // namespace

const std::vector<Flag>& request_flags() {
  using Kind = Flag::Kind;
  static const std::vector<Flag> flags{
      {"--model", "model", Kind::preset, "ID|FILE", "a preset (see: whatfits models) or a JSON file such as config.json"},
      {"--assume", "assume", Kind::text, "llama", "read a config.json of an unknown model type as Llama's"},
      {"--batch", "batch", Kind::value, "N", "sequences per micro-batch [1]"},
      {"--seq-len", "seq_len", Kind::value, "N", "tokens per sequence [the model's maximum, at most 2048]"},
      {"--precision", "precision", Kind::text, "WORD", "fp32, bf16, fp16, amp-bf16, amp-fp16 [fp32]"},
      {"--attention", "attention", Kind::text, "WORD",
       "eager, sdpa, sdpa-math, sdpa-efficient, sdpa-flash, flash-attention-2 [the model's own]"},
      {"--optimizer", "optimizer", Kind::text, "WORD",
       "adamw, adamw-fused, adamw-for-loop, adam, adam-amsgrad, sgd, sgd-momentum, sgd-momentum-fused, adagrad, rmsprop, adafactor, "
       "adafactor-foreach, adafactor-transformers, none, adamw-8bit, adamw-8bit-paged, muon, lion [adamw]"},
      {"--checkpointing", "checkpointing", Kind::text, "WORD", "none, full, full-reentrant, selective [none]"},
      {"--loss", "loss", Kind::text, "WORD", "default, fused-linear (Liger's) or chunked (parts under checkpoints) [default]"},
      {"--loss-chunks", "loss_chunks", Kind::value, "N", "parts of a chunked loss [8]"},
      {"--grad-accumulation", "grad_accumulation", Kind::value, "N", "micro-batches per optimizer step [1]"},
      {"--clip-grad-norm", "clip_grad_norm", Kind::boolean, "[BOOL]", "clip gradients by their norm [false]"},
      {"--zero-grad", "zero_grad", Kind::text, "WORD", "set-to-none, zero-fill [set-to-none]"},
      {"--lora", "lora", Kind::value, "JSON",
       "low-rank adapters: {\"rank\": 16, \"targets\": [\"q_proj\", \"v_proj\"]}; with \"base\": \"nf4\" QLoRA [null]"},
      {"--trainable", "trainable", Kind::text, "WORD", "all, all-but-embeddings, last:N [all]"},
      {"--dropout", "dropout", Kind::value, "P", "in place of the model's own probabilities"},
      {"--parallel", "parallel", Kind::value, "JSON", "several cards, of which the worst rank is replayed, or one by one:"},
      {"--parallel.strategy", "parallel.strategy", Kind::text, "WORD",
       "ddp, zero1, zero2, zero3, fsdp (FSDP2: fully_shard on each block and on the model)"},
      {"--parallel.gpus", "parallel.gpus", Kind::value, "N", "cards, one rank each"},
      {"--parallel.tensor", "parallel.tensor", Kind::value, "N", "ranks that share each matrix: 1, or all cards (strategy ddp)"},
      {"--engine", "engine", Kind::text, "WORD", "torch (replay), formula, llm.c, mlx [torch]"},
      {"--torch", "torch", Kind::text, "VERSION", "PyTorch whose behaviour is replayed [2.6]"},
      {"--transformers", "transformers", Kind::text, "VERSION", "Transformers whose code is replayed [5.12]"},
      {"--device", "device", Kind::preset, "ID|FILE", "a preset (see: whatfits devices) or a JSON file [a40]"},
      {"--calibration", "calibration", Kind::preset, "FILE", "what the card was measured to have: see whatfits calibrate"},
      {"--steps", "steps", Kind::value, "N", "training steps replayed [3]"},
      {"--allocator", "allocator", Kind::value, "JSON", "the allocator's options as one object, or one by one:"},
      {"--allocator.expandable-segments", "allocator.expandable_segments", Kind::boolean, "[BOOL]",
       "PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True [false]"},
      {"--allocator.max-split-size-mib", "allocator.max_split_size_mib", Kind::value, "N", ""},
      {"--allocator.roundup-power2-divisions", "allocator.roundup_power2_divisions", Kind::value, "N", ""},
      {"--allocator.garbage-collection-threshold", "allocator.garbage_collection_threshold", Kind::value, "X", ""},
      {"--script", "script", Kind::value, "JSON", "how the loop is written as one object, or one by one:"},
      {"--script.warmup-matmul", "script.warmup_matmul", Kind::value, "N", "an N × N matmul first, 0 for none [8 for gpt2-from-scratch]"},
      {"--script.outputs", "script.outputs", Kind::text, "WORD", "keep, loss-only, loss-detached [keep]"},
      {"--script.attention-mask", "script.attention_mask", Kind::text, "WORD", "none, ones, padded [none]"},
      {"--script.use-cache", "script.use_cache", Kind::value, "BOOL", "model.config.use_cache [the model's own]"},
      {"--script.zero-grad-at", "script.zero_grad_at", Kind::text, "WORD", "end, begin [end]"},
      {"--script.loss", "script.loss", Kind::text, "WORD", "model, outside, v4, v4-no-upcast [model]"},
      {"--script.data", "script.data", Kind::text, "WORD", "each-step, once [each-step]"},
  };
  return flags;
}

std::string RequestInput::as_words() const {
  std::string words;
  if (file) words += " " + shell_quoted(*file);
  for (const auto& [name, value] : flags) words += " " + name + " " + shell_quoted(value);
  return words;
}

json read_request(const RequestInput& input, json base) {
  json request = std::move(base);
  if (input.file) {
    const std::string name = *input.file == "-" ? "standard input" : printable(*input.file);
    request = parsed_json(read_text(*input.file, limits::text_bytes), name);
  }
  for (const Flag& flag : request_flags()) {  // in this order, so that --allocator comes before its parts
    for (const auto& [name, value] : input.flags) {
      if (name == flag.name) set(request, flag.key, flag_value(flag, value));
    }
  }
  return request;
}

Config checked(const json& request) {
  const ParsedRequest parsed = parse_request(request);
  if (parsed.problems.empty()) return parsed.config;
  std::vector<std::string> lines;
  lines.reserve(parsed.problems.size());
  for (const Problem& problem : parsed.problems) lines.push_back(to_line(problem));
  throw Failure(lines);
}

}  // namespace whatfits::cli
