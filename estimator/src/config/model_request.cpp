#include <algorithm>
#include <nlohmann/json.hpp>

#include "config/hf_model.h"
#include "config/preset_lookup.h"
#include "config/sections.h"
#include "config/text.h"

namespace whatfits::config {
namespace {

// Keys of Hugging Face's GPT-2 config.json that change no tensor of the model from scratch.
constexpr const char* kHarmless[] = {
    "_name_or_path",
    "architectures",
    "bos_token_id",
    "chunk_size_feed_forward",
    "dtype",
    "eos_token_id",
    "id2label",
    "initializer_range",
    "label2id",
    "layer_norm_epsilon",
    "name_or_path",
    "n_ctx",
    "pad_token_id",
    "summary_activation",
    "summary_first_dropout",
    "summary_proj_to_labels",
    "summary_type",
    "summary_use_proj",
    "task_specific_params",
    "torch_dtype",
    "transformers_version",
    "use_cache",
};

// Its keys that would change tensors; the code from scratch has no such switch, so each must say what that code does.
void read_switches(Reader& model, const ModelConfig& config) {
  for (const char* key : {"attn_pdrop", "embd_pdrop", "resid_pdrop"}) {
    const json* value = model.find(key);
    if (value == nullptr || (value->is_number() && *value == 0)) continue;
    if (value->is_number() && *value > 0 && *value <= 1) {
      model.unsupported(key, *value, only_supported({"0"}));
    } else {
      model.not_allowed(key, *value, "must be a probability");
    }
  }
  if (const json* value = model.find("n_inner"); value != nullptr && !value->is_null()) {
    std::int64_t inner = 0;
    if (model.integer("n_inner", 1, 4 * limits::n_embd, inner) && inner != 4 * config.n_embd) {
      model.unsupported("n_inner", *value, "only null and 4 * n_embd are supported so far");
    }
  }
  bool flag = true;
  for (const char* key : {"tie_word_embeddings", "scale_attn_weights"}) {
    flag = true;
    if (model.boolean(key, flag) && !flag) model.unsupported(key, false, only_supported({"true"}));
  }
  for (const char* key : {"add_cross_attention", "reorder_and_upcast_attn", "scale_attn_by_inverse_layer_idx"}) {
    flag = false;
    if (model.boolean(key, flag) && flag) model.unsupported(key, true, only_supported({"false"}));
  }
  std::size_t index = 0;
  model.word("activation_function", {{"gelu_new"}, {"gelu", "relu", "silu", "swish", "tanh"}}, index);
}

void read_object(const json& object, bool assume, ModelConfig& out, std::vector<Problem>& problems) {
  Reader model(object, "model.", problems);
  const Words types{replayed_model_types(), model_types_to_come()};
  const json* type = model.find("model_type");
  const auto* name = type != nullptr ? type->get_ptr<const std::string*>() : nullptr;
  if (type == nullptr) {
    model.statement("model_type", "is missing; it must be " + listed(types.now, "or"));
  } else if (assume && name != nullptr && std::find(types.now.begin(), types.now.end(), *name) == types.now.end()) {
    for (const char* key : {"vocab_size", "hidden_size", "num_hidden_layers", "num_attention_heads", "intermediate_size"}) {
      if (model.find(key) == nullptr) model.statement(key, "is missing; a model read as llama must state it");
    }
    out.model_type = "llama";
    out.assumed_from = shown(std::string_view(*name));
  } else if (std::size_t index = 0; model.word("model_type", types, index)) {
    out.model_type = types.now[index];
  } else {
    return;  // another family has other keys: nothing more can be said
  }
  if (out.model_type != "gpt2-from-scratch") {
    read_hf_model(model, out);
    return;
  }
  model.integer("vocab_size", 1, limits::vocab_size, out.vocab_size);
  model.integer("n_positions", 1, limits::positions, out.n_positions);
  const std::size_t before = problems.size();
  model.integer("n_embd", 1, limits::n_embd, out.n_embd);
  model.integer("n_head", 1, limits::n_embd, out.n_head);
  if (problems.size() == before && out.n_embd % out.n_head != 0) {
    const json* heads = model.find("n_head");
    model.not_allowed("n_head", heads != nullptr ? *heads : json(out.n_head), "must divide n_embd (" + std::to_string(out.n_embd) + ")");
  }
  model.integer("n_layer", 1, limits::n_layer, out.n_layer);
  read_switches(model, out);
  for (const char* key : kHarmless) model.find(key);
  model.finish();
}

}  // namespace

void read_model(Reader& request, ModelConfig& out, std::vector<Problem>& problems) {
  const json* value = request.find("model");
  bool assume = false;
  if (const json* as = request.find("assume"); as != nullptr && !as->is_null()) {
    std::size_t index = 0;
    assume = request.word("assume", {{"llama"}, {}}, index);
  }
  const std::string a_preset = "a preset (" + listed({"gpt2-from-scratch", "gpt2", "llama-2-7b", "qwen2.5-0.5b"}, "or") +
                               ", or another of the " + std::to_string(model_ids().size()) + ")";
  if (value == nullptr) {
    request.statement("model", "is missing; it must be " + a_preset + " or an object");
    return;
  }
  if (value->is_object()) {
    out.preset.clear();
    read_object(*value, assume, out, problems);
    return;
  }
  const auto* id = value->get_ptr<const std::string*>();
  if (id != nullptr) {
    if (const auto preset = find_model(*id)) {
      out = preset->config;
      return;
    }
    const auto later = models_to_come();
    if (std::find(later.begin(), later.end(), *id) != later.end()) {
      request.unsupported("model", *value, "its family is not replayed yet; it must be " + a_preset + " or an object");
      return;
    }
  }
  request.not_allowed("model", *value,
                      "must be " + a_preset + " or an object" + (id == nullptr ? std::string() : did_you_mean(*id, model_ids())));
}

}  // namespace whatfits::config
