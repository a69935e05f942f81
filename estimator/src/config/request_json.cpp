#include <nlohmann/json.hpp>

#include "config/names.h"
#include "config/preset_lookup.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

using nlohmann::ordered_json;

template <typename Enum>
std::string_view word_of(const config::Words& words, Enum value) {
  return words.now[static_cast<std::size_t>(value)];
}

ordered_json model_json(const ModelConfig& model) {
  if (const auto preset = config::find_model(model.preset); preset && preset->config == model) return model.preset;
  ordered_json out;
  out["model_type"] = model.model_type;
  out["vocab_size"] = model.vocab_size;
  out["n_positions"] = model.n_positions;
  out["n_embd"] = model.n_embd;
  out["n_head"] = model.n_head;
  out["n_layer"] = model.n_layer;
  return out;
}

ordered_json device_json(const Device& device) {
  if (const auto preset = config::find_device(device.preset); preset && preset->device == device) return device.preset;
  ordered_json out;
  out["name"] = device.name;
  out["total_mib"] = device.total_mib;
  out["free_mib"] = device.free_mib;
  const int capability = device.compute_capability;
  out["compute_capability"] = nullptr;  // null: not known
  if (capability > 0) out["compute_capability"] = std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  out["sm_count"] = nullptr;
  if (device.sm_count > 0) out["sm_count"] = device.sm_count;
  if (device.total_assumed) out["total_assumed"] = true;
  if (device.free_assumed) out["free_assumed"] = true;
  return out;
}

}  // namespace

std::string_view to_string(Precision value) { return word_of(config::precision_words(), value); }
std::string_view to_string(Attention value) { return word_of(config::attention_words(), value); }
std::string_view to_string(Optimizer value) { return word_of(config::optimizer_words(), value); }
std::string_view to_string(Checkpointing value) { return word_of(config::checkpointing_words(), value); }
std::string_view to_string(ZeroGrad value) { return word_of(config::zero_grad_words(), value); }
std::string_view to_string(Engine value) { return word_of(config::engine_words(), value); }

ordered_json request_json(const Config& config) {
  ordered_json out;
  out["model"] = model_json(config.model);
  out["batch"] = config.batch;
  out["seq_len"] = config.seq_len;
  out["precision"] = to_string(config.precision);
  out["attention"] = to_string(config.attention);
  out["optimizer"] = to_string(config.optimizer);
  out["checkpointing"] = to_string(config.checkpointing);
  out["loss"] = "default";
  out["grad_accumulation"] = config.grad_accumulation;
  out["clip_grad_norm"] = config.clip_grad_norm;
  out["zero_grad"] = to_string(config.zero_grad);
  out["lora"] = nullptr;
  out["trainable"] = "all";
  out["dropout"] = nullptr;
  out["parallel"] = nullptr;
  out["allocator"]["expandable_segments"] = config.allocator.expandable_segments;
  out["allocator"]["max_split_size_mib"] = nullptr;
  out["allocator"]["roundup_power2_divisions"] = 0;
  out["allocator"]["garbage_collection_threshold"] = 0;
  out["engine"] = to_string(config.engine);
  out["torch"] = config.torch;
  out["transformers"] = config.transformers;
  out["device"] = device_json(config.device);
  out["steps"] = config.steps;
  out["script"]["warmup_matmul"] = config.script.warmup_matmul;
  for (const auto& fixed : config::fixed_script_words()) out["script"][fixed.key] = fixed.value;
  out["script"]["use_cache"] = nullptr;
  return out;
}

}  // namespace whatfits
