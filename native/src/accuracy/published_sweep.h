// A sweep over batches that was published with PyTorch's own counters (fixtures/published/gpt2-a40.json), as runs that can be predicted.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "whatfits/config.h"

namespace whatfits::accuracy {

/// A counter as its source printed it.
struct Printed {
  std::int64_t bytes = 0;
  std::int64_t halfwidth = 0;  ///< half a unit of the last printed digit, bytes
};

/// A run that ended, and the highest that PyTorch's counters stood in it.
struct SweepRun {
  std::string name;  ///< "batch 16"
  Config config;
  std::optional<Printed> allocated, reserved;  ///< absent: not printed
};

struct Sweep {
  std::string card;
  std::optional<std::int64_t> free;  ///< of the card before the run, bytes
  std::vector<SweepRun> runs;        ///< ascending by batch
};

/// Whether a JSON value is such a file: {"kind": "published", "figures": […]}.
bool is_sweep(const nlohmann::json& file);

/// The request of one batch of the sweep, in the words of the request: the file's model, run and card. Throws nlohmann::json::exception for
/// what is missing, std::runtime_error for a card that the catalogue does not have.
nlohmann::json sweep_request(const nlohmann::json& file, std::int64_t batch);

/// The runs whose peaks are printed. Throws as sweep_request(), and std::runtime_error for a request that is not valid or a figure
/// of 0 bytes or less, or above 2^50.
Sweep read_sweep(const nlohmann::json& file);

}  // namespace whatfits::accuracy
