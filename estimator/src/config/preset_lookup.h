// Presets by id, without copying the whole catalogue.
#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "whatfits/presets.h"

namespace whatfits::config {

/// The model types that this version has code for. To add a family: its rows in fixtures/models.json, its type here, its fields
/// in ModelConfig and in read_model (model_request.cpp).
const std::vector<std::string_view>& replayed_model_types();

/// By id or alias.
std::optional<DevicePreset> find_device(std::string_view id);
/// Ids and aliases.
std::vector<std::string_view> device_ids();

/// Only models that are replayed.
std::optional<ModelPreset> find_model(std::string_view id);
std::vector<std::string_view> model_ids();

}  // namespace whatfits::config
