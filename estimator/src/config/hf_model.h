// A Hugging Face config.json as a ModelConfig, and back.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "config/reader.h"
#include "whatfits/config.h"

namespace whatfits::config {

/// Reads the object behind `model` as a config.json of `out.model_type`, one of hf::model_types(). As in Transformers, a key that the
/// family's code does not know is nobody's business and ignored; one that it knows and this version does not replay is a problem.
void read_hf_model(Reader& model, ModelConfig& out);

/// The keys that read_hf_model needs to give the same ModelConfig again.
void write_hf_model(const ModelConfig& model, nlohmann::ordered_json& out);

}  // namespace whatfits::config
