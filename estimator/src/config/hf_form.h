// The two ways through a family's config.json: the same description of its fields (hf_model.cpp) reads them with one, writes with the
// other.
#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

#include "config/reader.h"
#include "whatfits/config.h"

namespace whatfits::config {

/// By Hugging Face's name for it.
std::optional<Activation> activation_named(std::string_view name);

/// Names of one field, the family's own first. The others are what Transformers maps to it.
using Keys = std::initializer_list<const char*>;

/// Reads a field from JSON. A null is as good as no key; one that is wrong adds a problem and leaves the field.
class FromJson {
 public:
  explicit FromJson(Reader& reader) : reader_(reader) {}

  bool integer(Keys keys, std::int64_t low, std::int64_t high, std::int64_t& out);
  void boolean(Keys keys, bool& out);
  void probability(Keys keys, double& out);
  void activation(Keys keys, Activation& out);
  /// A soft cap: a number, or null for none. The number itself changes no tensor.
  void capped(const char* key, bool& out);
  /// layer_types: which layers have the sliding window.
  void layers(ModelConfig& m);
  /// A key that changes tensors and whose only replayed value this is.
  void only(const char* key, const nlohmann::ordered_json& wanted);
  bool null(const char* key);
  /// rope_parameters of Transformers 5, rope_scaling before it: the type, and the share of a head that is rotated.
  void rope(double& share);
  void clash(const char* key, std::string message) { reader_.statement(key, std::move(message)); }

 private:
  const char* present(Keys keys);
  void fraction(const nlohmann::ordered_json& object, const char* key, double& share);

  Reader& reader_;
  bool inside_ = false;  ///< rope_parameters has the share
};

/// Writes it, by the family's own name.
class ToJson {
 public:
  explicit ToJson(nlohmann::ordered_json& out) : out_(out) {}

  bool integer(Keys keys, std::int64_t low, std::int64_t high, const std::int64_t& value);
  void boolean(Keys keys, const bool& value) { out_[*keys.begin()] = value; }
  void probability(Keys keys, const double& value) { out_[*keys.begin()] = value; }
  void activation(Keys keys, const Activation& value);
  void capped(const char* key, const bool& value);
  void layers(const ModelConfig& m);
  void only(const char*, const nlohmann::ordered_json&) {}
  void rope(const double& share) { out_["partial_rotary_factor"] = share; }

 private:
  nlohmann::ordered_json& out_;
};

}  // namespace whatfits::config
