#include "whatfits/presets.h"

#include <algorithm>

#include "config/hf_form.h"
#include "config/preset_lookup.h"
#include "models/hf/families.h"

namespace whatfits {
namespace {

struct DeviceRow {
  const char* id;
  const char* alias;
  const char* name;
  const char* vendor;
  std::int64_t total_mib;
  std::int64_t free_mib;
  int compute_capability;
  int sm_count;
  bool total_assumed;
  bool free_assumed;
  Bytes budgets[2];
  Rates rates;
};

struct ModelRow {
  const char* id;
  const char* model_type;
  std::int64_t vocab_size;
  std::int64_t n_positions;
  std::int64_t n_embd;
  std::int64_t n_head;
  std::int64_t n_layer;
  std::uint64_t parameters;
  std::int64_t n_kv_head;
  std::int64_t head_dim;
  std::int64_t n_inner;
  std::int64_t sliding_window;
  std::int64_t word_embed_dim;
  std::int64_t n_expert, n_expert_used;
  double rotary_share;
  double embd_pdrop, attn_pdrop, resid_pdrop;
  const char* activation;
  bool tied, qkv_bias, mlp_bias, parallel_residual, pre_norm, norm_topk_prob;
};

#include "config/preset_tables.inc"

// Why PyTorch's CUDA kernels cannot be replayed on a card, in words.
std::string missing_for_torch(const DeviceRow& row) {
  std::string missing;
  if (row.compute_capability == 0) missing = "has no CUDA compute capability";
  if (row.sm_count == 0) missing += std::string(missing.empty() ? "has" : " and") + " no known number of multiprocessors";
  if (row.total_mib == 0) missing += std::string(missing.empty() ? "has" : " and") + " no known memory size";
  return missing;
}

DevicePreset preset_of(const DeviceRow& row) {
  DevicePreset preset;
  preset.id = row.id;
  preset.alias = row.alias;
  preset.vendor = row.vendor;
  preset.device.preset = row.id;
  preset.device.name = row.name;
  preset.device.total_mib = row.total_mib;
  preset.device.free_mib = row.free_mib;
  preset.device.compute_capability = row.compute_capability;
  preset.device.sm_count = row.sm_count;
  preset.device.total_assumed = row.total_assumed;
  preset.device.free_assumed = row.free_assumed;
  preset.device.rates = row.rates;
  for (const Bytes budget : row.budgets) {
    if (budget > 0) preset.budgets.push_back(budget);
  }
  preset.missing = missing_for_torch(row);
  return preset;
}

bool is_replayed(const ModelRow& row) {
  const auto& types = config::replayed_model_types();
  return std::find(types.begin(), types.end(), row.model_type) != types.end();
}

// What a row says beyond the dimensions that every model has; read_hf_model makes the same of the model's config.json.
void fill_hf(ModelConfig& config, const ModelRow& row) {
  const std::string_view type = row.model_type;
  config.n_kv_head = row.n_kv_head;
  config.head_dim = row.head_dim;
  config.n_inner = row.n_inner;
  config.tie_word_embeddings = row.tied;
  config.embd_pdrop = type == "opt" ? 0 : row.embd_pdrop;
  config.attn_pdrop = row.attn_pdrop;
  config.resid_pdrop = row.resid_pdrop;
  config.activation = config::activation_named(row.activation).value_or(Activation::gelu);
  if (type == "mixtral" || type == "qwen3_moe") {
    config.n_expert = row.n_expert;
    config.n_expert_used = row.n_expert_used;
  }
  config.norm_topk_prob = type == "qwen3_moe" && row.norm_topk_prob;
  if (type == "bloom") config.n_positions = 2048;
  const bool learned_positions = type == "gpt2" || type == "gpt_bigcode" || type == "opt" || type == "bloom";
  if (!learned_positions) config.rotary_dim = static_cast<std::int64_t>(static_cast<double>(row.head_dim) * row.rotary_share);
  if (type == "llama" || type == "gpt_neox" || type == "falcon") config.attention_bias = row.qkv_bias;
  if (type == "llama") config.mlp_bias = row.mlp_bias;
  if (type == "gpt_neox" || type == "falcon") config.parallel_residual = row.parallel_residual;
  if (type == "falcon") config.multi_query = row.n_kv_head == 1;
  if (type == "opt") {
    config.word_embed_dim = row.word_embed_dim > 0 ? row.word_embed_dim : row.n_embd;
    config.pre_norm = row.pre_norm;
  }
  if (type == "mistral" || type == "phi3" || type == "gemma2") config.sliding_window = row.sliding_window;
  if (type == "gemma2") {
    config.softcap_attention = config.softcap_logits = true;
    for (std::int64_t i = 0; i < row.n_layer; ++i) config.sliding.push_back(i % 2 == 0);
  }
}

ModelPreset preset_of(const ModelRow& row) {
  ModelPreset preset;
  preset.id = row.id;
  preset.config.preset = row.id;
  preset.config.model_type = row.model_type;
  preset.config.vocab_size = row.vocab_size;
  preset.config.n_positions = row.n_positions;
  preset.config.n_embd = row.n_embd;
  preset.config.n_head = row.n_head;
  preset.config.n_layer = row.n_layer;
  if (preset.config.model_type != "gpt2-from-scratch") fill_hf(preset.config, row);
  preset.parameters = row.parameters;
  return preset;
}

}  // namespace

std::span<const MeasuredPace> measured_paces() { return kMeasuredPaces; }

std::vector<DevicePreset> device_presets() {
  std::vector<DevicePreset> presets;
  for (const DeviceRow& row : kDeviceRows) presets.push_back(preset_of(row));
  return presets;
}

std::vector<ModelPreset> model_presets() {
  std::vector<ModelPreset> presets;
  for (const ModelRow& row : kModelRows) {
    if (is_replayed(row)) presets.push_back(preset_of(row));
  }
  return presets;
}

std::vector<std::string_view> models_to_come() {
  std::vector<std::string_view> ids;
  for (const ModelRow& row : kModelRows) {
    if (!is_replayed(row)) ids.emplace_back(row.id);
  }
  return ids;
}

std::vector<std::string_view> model_types_to_come() {
  std::vector<std::string_view> types;
  for (const ModelRow& row : kModelRows) {
    if (!is_replayed(row) && std::find(types.begin(), types.end(), row.model_type) == types.end()) types.emplace_back(row.model_type);
  }
  return types;
}

namespace config {

const std::vector<std::string_view>& replayed_model_types() {
  static const std::vector<std::string_view> types = [] {
    std::vector<std::string_view> all{"gpt2-from-scratch"};
    const auto& hugging_face = hf::model_types();
    all.insert(all.end(), hugging_face.begin(), hugging_face.end());
    return all;
  }();
  return types;
}

std::optional<DevicePreset> find_device(std::string_view id) {
  for (const DeviceRow& row : kDeviceRows) {
    if (id == row.id || (!id.empty() && id == row.alias)) return preset_of(row);
  }
  return std::nullopt;
}

std::vector<std::string_view> device_ids() {
  std::vector<std::string_view> ids;
  for (const DeviceRow& row : kDeviceRows) {
    ids.emplace_back(row.id);
    if (*row.alias != '\0') ids.emplace_back(row.alias);
  }
  return ids;
}

std::optional<ModelPreset> find_model(std::string_view id) {
  for (const ModelRow& row : kModelRows) {
    if (id == row.id && is_replayed(row)) return preset_of(row);
  }
  return std::nullopt;
}

std::vector<std::string_view> model_ids() {
  std::vector<std::string_view> ids;
  for (const ModelRow& row : kModelRows) {
    if (is_replayed(row)) ids.emplace_back(row.id);
  }
  return ids;
}

}  // namespace config
}  // namespace whatfits
