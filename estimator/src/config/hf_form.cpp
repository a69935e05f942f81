#include "config/hf_form.h"

#include <vector>

#include "config/text.h"

namespace whatfits::config {

using nlohmann::ordered_json;

namespace {

struct KnownActivation {
  const char* name;
  Activation activation;
};
constexpr KnownActivation kActivations[] = {
    {"gelu", Activation::gelu}, {"gelu_new", Activation::gelu_new}, {"gelu_pytorch_tanh", Activation::gelu_pytorch_tanh},
    {"relu", Activation::relu}, {"silu", Activation::silu},         {"swish", Activation::silu},
};

}  // namespace

std::optional<Activation> activation_named(std::string_view name) {
  for (const KnownActivation& known : kActivations) {
    if (name == known.name) return known.activation;
  }
  return std::nullopt;
}

bool FromJson::integer(Keys keys, std::int64_t low, std::int64_t high, std::int64_t& out) {
  const char* key = present(keys);
  return key != nullptr && reader_.integer(key, low, high, out);
}

void FromJson::boolean(Keys keys, bool& out) {
  if (const char* key = present(keys)) reader_.boolean(key, out);
}

void FromJson::probability(Keys keys, double& out) {
  const char* key = present(keys);
  if (key == nullptr) return;
  const json* value = reader_.find(key);
  if (value->is_number() && *value >= 0 && *value < 1) {
    out = value->get<double>();
  } else {
    reader_.not_allowed(key, *value, "must be a probability below 1");
  }
}

void FromJson::activation(Keys keys, Activation& out) {
  const char* key = present(keys);
  if (key == nullptr) return;
  const json* value = reader_.find(key);
  std::vector<std::string_view> names;
  for (const KnownActivation& known : kActivations) {
    if (*value == known.name) {
      out = known.activation;
      return;
    }
    names.emplace_back(known.name);
  }
  reader_.not_allowed(key, *value, "must be " + listed(names, "or"));
}

void FromJson::capped(const char* key, bool& out) {
  const json* value = reader_.find(key);
  if (value == nullptr) return;
  if (value->is_null() || (value->is_number() && *value > 0)) {
    out = !value->is_null();
  } else {
    reader_.not_allowed(key, *value, "must be a number above 0, or null");
  }
}

void FromJson::layers(ModelConfig& m) {
  const char* key = present({"layer_types"});
  if (key == nullptr) return;
  const json* value = reader_.find(key);
  std::vector<bool> sliding;
  bool right = value->is_array() && static_cast<std::int64_t>(value->size()) == m.n_layer;
  for (std::size_t i = 0; right && i < value->size(); ++i) {
    const bool window = (*value)[i] == "sliding_attention";
    right = window || (*value)[i] == "full_attention";
    sliding.push_back(window);
  }
  if (right) {
    m.sliding = std::move(sliding);
  } else {
    reader_.statement(key, "must be a list of full_attention and sliding_attention, one for each layer");
  }
}

void FromJson::only(const char* key, const json& wanted) {
  const json* value = reader_.find(key);
  if (value == nullptr || value->is_null() || *value == wanted) return;
  reader_.unsupported(key, *value, only_supported({wanted.dump()}));
}

bool FromJson::null(const char* key) {
  const json* value = reader_.find(key);
  return value != nullptr && value->is_null();
}

void FromJson::rope(double& share) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* value = reader_.find(key);
    if (value == nullptr || value->is_null()) continue;
    if (!value->is_object()) {
      reader_.not_allowed(key, *value, "must be an object");
      continue;
    }
    for (const char* name : {"rope_type", "type"}) {
      const auto type = value->find(name);
      if (type == value->end() || type->is_null()) continue;
      bool known = false;
      for (const char* fixed : {"default", "linear", "llama3", "yarn"}) known = known || *type == fixed;
      if (!known) reader_.unsupported(key, *type, only_supported({"default", "linear", "llama3", "yarn"}));
      break;
    }
    fraction(*value, key, share);
  }
  if (const char* key = present({"partial_rotary_factor", "rotary_pct"})) {
    const json* value = reader_.find(key);
    if (value->is_number() && *value > 0 && *value <= 1) {
      if (!inside_) share = value->get<double>();
    } else {
      reader_.not_allowed(key, *value, "must be a number above 0, at most 1");
    }
  }
}

const char* FromJson::present(Keys keys) {
  const char* found = nullptr;
  for (const char* key : keys) {
    const json* value = reader_.find(key);
    if (found == nullptr && value != nullptr && !value->is_null()) found = key;
  }
  return found;
}

void FromJson::fraction(const json& object, const char* key, double& share) {
  const auto value = object.find("partial_rotary_factor");
  if (value == object.end() || value->is_null()) return;
  if (value->is_number() && *value > 0 && *value <= 1) {
    share = value->get<double>();
    inside_ = true;
  } else {
    reader_.not_allowed(key, *value, "partial_rotary_factor must be a number above 0, at most 1");
  }
}

bool ToJson::integer(Keys keys, std::int64_t, std::int64_t, const std::int64_t& value) {
  out_[*keys.begin()] = value;
  return true;
}

void ToJson::activation(Keys keys, const Activation& value) {
  for (const KnownActivation& known : kActivations) {
    if (known.activation != value) continue;
    out_[*keys.begin()] = known.name;
    return;
  }
}

void ToJson::capped(const char* key, const bool& value) {
  out_[key] = nullptr;
  if (value) out_[key] = 50.0;
}

void ToJson::layers(const ModelConfig& m) {
  if (m.sliding.empty()) return;
  auto types = ordered_json::array();
  for (const bool sliding : m.sliding) types.push_back(sliding ? "sliding_attention" : "full_attention");
  out_["layer_types"] = std::move(types);
}

}  // namespace whatfits::config
