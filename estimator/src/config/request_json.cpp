#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/hf_model.h"
#include "config/names.h"
#include "config/preset_lookup.h"
#include "config/sections.h"
#include "models/hf/families.h"
#include "whatfits/request.h"

namespace whatfits {
namespace {

using nlohmann::ordered_json;

template <typename Enum>
std::string_view word_of(const config::Words& words, Enum value) {
  return words.now[static_cast<std::size_t>(value)];
}

ordered_json preset_or_object(const ModelConfig& model) {
  if (const auto preset = config::find_model(model.preset); preset && preset->config == model) return model.preset;
  return model_json(model);
}

ordered_json lora_json(const Lora& lora) {
  ordered_json out;
  out["rank"] = lora.rank;
  out["targets"] = lora.targets;
  out["dropout"] = lora.dropout;
  out["adapter_dtype"] = lora.base_dtype ? "base" : "fp32";
  out["base"] = nullptr;
  if (lora.nf4) {
    out["base"] = "nf4";
    out["prepare"] = lora.prepare;
  }
  return out;
}

ordered_json parallel_json(const Parallel& parallel) {
  ordered_json out;
  out["strategy"] = to_string(parallel.strategy);
  out["gpus"] = parallel.gpus;
  out["tensor"] = parallel.tensor;
  for (const char* degree : {"pipeline", "sequence"}) out[degree] = 1;
  return out;
}

std::string trainable_text(const Trainable& trainable) {
  switch (trainable.what) {
    case Trainable::What::all_but_embeddings:
      return "all-but-embeddings";
    case Trainable::What::last:
      return "last:" + std::to_string(trainable.blocks);
    case Trainable::What::all:
      break;
  }
  return "all";
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
  config::for_each_rate(device.rates, [&](const char* key, std::int64_t rate) {
    if (rate > 0) out[key] = static_cast<double>(rate) / 1000;
  });
  return out;
}

// What was free is the device's.
ordered_json calibration_json(const Calibration& calibration) {
  ordered_json out;
  out["extra_mib"] = calibration.extra_mib;
  out["reserved_per_mille"] = nullptr;
  if (calibration.reserved_per_mille > 0) out["reserved_per_mille"] = calibration.reserved_per_mille;
  out["from"] = calibration.from;
  return out;
}

}  // namespace

std::string_view to_string(Precision value) { return word_of(config::precision_words(), value); }
std::string_view to_string(Attention value) { return word_of(config::attention_words(), value); }
std::string_view to_string(Optimizer value) { return word_of(config::optimizer_words(), value); }
std::string_view to_string(Checkpointing value) { return word_of(config::checkpointing_words(), value); }
std::string_view to_string(Loss value) { return word_of(config::loss_words(), value); }
std::string_view to_string(ZeroGrad value) { return word_of(config::zero_grad_words(), value); }
std::string_view to_string(Engine value) { return word_of(config::engine_words(), value); }
std::string_view to_string(Parallel::Strategy value) { return word_of(config::strategy_words(), value); }

ordered_json model_json(const ModelConfig& model) {
  ordered_json out;
  if (model.model_type != "gpt2-from-scratch") {
    config::write_hf_model(model, out);
    if (!model.assumed_from.empty()) out["model_type"] = model.assumed_from;
    return out;
  }
  out["model_type"] = model.model_type;
  out["vocab_size"] = model.vocab_size;
  out["n_positions"] = model.n_positions;
  out["n_embd"] = model.n_embd;
  out["n_head"] = model.n_head;
  out["n_layer"] = model.n_layer;
  return out;
}

ordered_json request_json(const Config& config) {
  ordered_json out;
  out["model"] = preset_or_object(config.model);
  if (!config.model.assumed_from.empty()) out["assume"] = config.model.model_type;
  out["batch"] = config.batch;
  out["seq_len"] = config.seq_len;
  out["precision"] = to_string(config.precision);
  out["attention"] = to_string(config.attention);
  out["optimizer"] = to_string(config.optimizer);
  out["checkpointing"] = to_string(config.checkpointing);
  out["loss"] = to_string(config.loss);
  if (config.loss == Loss::chunked) out["loss_chunks"] = config.loss_chunks;
  out["grad_accumulation"] = config.grad_accumulation;
  out["clip_grad_norm"] = config.clip_grad_norm;
  out["zero_grad"] = to_string(config.zero_grad);
  out["lora"] = nullptr;
  if (config.lora) out["lora"] = lora_json(*config.lora);
  out["trainable"] = trainable_text(config.trainable);
  out["dropout"] = nullptr;
  if (config.dropout) out["dropout"] = *config.dropout;
  out["parallel"] = nullptr;
  if (config.parallel) out["parallel"] = parallel_json(*config.parallel);
  out["allocator"]["expandable_segments"] = config.allocator.expandable_segments;
  out["allocator"]["max_split_size_mib"] = nullptr;
  if (config.allocator.max_split_size_mib > 0) out["allocator"]["max_split_size_mib"] = config.allocator.max_split_size_mib;
  out["allocator"]["roundup_power2_divisions"] = config.allocator.roundup_power2_divisions;
  out["allocator"]["garbage_collection_threshold"] = 0;
  if (config.allocator.garbage_collection_threshold > 0) {
    out["allocator"]["garbage_collection_threshold"] = config.allocator.garbage_collection_threshold;
  }
  out["engine"] = to_string(config.engine);
  out["torch"] = config.torch;
  out["transformers"] = config.transformers;
  Device device = config.device;
  if (config.calibration) device.free_mib += config.calibration->extra_mib;
  out["device"] = device_json(device);
  if (config.calibration) out["calibration"] = calibration_json(*config.calibration);
  out["steps"] = config.steps;
  out["script"]["warmup_matmul"] = config.script.warmup_matmul;
  const Script& script = config.script;
  out["script"]["outputs"] = word_of(config::outputs_words(), script.outputs);
  out["script"]["attention_mask"] = word_of(config::attention_mask_words(), script.attention_mask);
  out["script"]["zero_grad_at"] = word_of(config::zero_grad_at_words(), script.zero_grad_at_begin);
  out["script"]["loss"] = word_of(config::script_loss_words(), script.loss);
  out["script"]["data"] = word_of(config::data_words(), script.data_once);
  out["script"]["use_cache"] = nullptr;
  if (script.use_cache) out["script"]["use_cache"] = *script.use_cache;
  return out;
}

namespace {

// An adapter without what goes without saying.
ordered_json short_lora(const Config& config) {
  const Lora& lora = *config.lora;
  ordered_json out = lora_json(lora);
  Lora plain;
  plain.nf4 = lora.nf4;
  const ordered_json defaults = lora_json(plain);
  for (const char* key : {"dropout", "adapter_dtype", "base", "prepare"}) {
    if (out.contains(key) && out[key] == defaults.at(key) && !(lora.nf4 && std::string_view(key) == "base")) out.erase(key);
  }
  const std::vector<std::string_view> linears = hf::linear_names(config.model.model_type);
  if (std::equal(linears.begin(), linears.end(), lora.targets.begin(), lora.targets.end())) out["targets"] = "all-linear";
  return out;
}

}  // namespace

std::vector<Setting> differences(const Config& before, const Config& after) {
  std::vector<Setting> list;
  const ordered_json then = request_json(before);
  const ordered_json now = request_json(after);
  // A section is said key by key; an adapter, a model or a card is said whole.
  for (const auto& [key, value] : now.items()) {
    const ordered_json old = then.contains(key) ? then.at(key) : ordered_json();
    if (value == old) continue;
    if (key == "lora" && after.lora) {
      list.push_back({key, short_lora(after).dump()});
    } else if (!value.is_object() || key == "model" || key == "device") {
      list.push_back({key, value.dump()});
    } else {
      ordered_json from = old;
      if (!old.is_object()) from = {{"tensor", 1}, {"pipeline", 1}, {"sequence", 1}};  // a `parallel` that is new
      for (const auto& [inner, inner_value] : value.items()) {
        if (!from.contains(inner) || inner_value != from.at(inner)) list.push_back({key + "." + inner, inner_value.dump()});
      }
    }
  }
  return list;
}

}  // namespace whatfits
