// What a family's config class of Transformers 5.12 has where a config.json says nothing.
#pragma once

#include <string_view>

#include "whatfits/config.h"

namespace whatfits::config {

/// The defaults of a `model_type` that is replayed (hf::model_types). Zero where derive() of hf_model.cpp works a field out of others.
ModelConfig defaults_of(std::string_view model_type);

/// The part of a head that is rotated, where the file names none.
double default_rotary_share(std::string_view model_type);

}  // namespace whatfits::config
