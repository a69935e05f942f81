// The cards and models that have a name of their own. Compiled from fixtures/devices.json and fixtures/models.json, where each
// figure has its source; fixtures/README.md states the rule for what is free on a card.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/bytes.h"
#include "whatfits/config.h"

namespace whatfits {

/// MiB that a CUDA context takes where none was observed: the rule for a device without `free_mib`.
inline constexpr std::int64_t kAssumedContextMib = 500;

/// A card of the catalogue.
struct DevicePreset {
  std::string id;
  std::string alias;           ///< a second id of the same card, often empty
  std::string vendor;          ///< "NVIDIA", "AMD", "Apple", "Google"
  Device device;               ///< total_mib and free_mib are 0 where the catalogue has no memory figure
  std::vector<Bytes> budgets;  ///< what a run may take on a machine without a fixed limit, ascending; empty on cards
  std::string missing;         ///< why `engine: torch` cannot use it, in words; empty if it can
};

/// A model of the catalogue that this version replays.
struct ModelPreset {
  std::string id;
  ModelConfig config;
  std::uint64_t parameters = 0;  ///< tied ones once; as published, for checking
};

/// A training speed that somebody published; fixtures/published/throughput.json has the sources.
struct MeasuredPace {
  const char* model;
  std::uint64_t parameters;
  const char* device;  ///< preset
  std::int64_t batch, seq_len;
  const char* how;
  std::uint64_t tokens_per_second;  ///< of one device
};
std::span<const MeasuredPace> measured_paces();

/// Every card of the catalogue, those that only `engine: formula` can use included; in the catalogue's order.
std::vector<DevicePreset> device_presets();

/// Every model this version replays, smallest first within a family.
std::vector<ModelPreset> model_presets();

/// Ids of models that the catalogue has and this version does not replay yet.
std::vector<std::string_view> models_to_come();

/// Model types of the above, each once; "nanogpt" and the Hugging Face ones.
std::vector<std::string_view> model_types_to_come();

}  // namespace whatfits
