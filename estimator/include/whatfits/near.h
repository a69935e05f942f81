// How far predictions of runs like one have been from recorded runs of PyTorch.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "whatfits/config.h"

namespace whatfits {

/// Recorded runs (fixtures/torch/) of one model type that share precision, attention, checkpointing, adapters or none, and strategy of
/// several cards or none. Source: the table that tools/near_table.py writes from the fixtures.
struct Near {
  std::int64_t runs = 0;
  std::int64_t worst_ppm = 0;    ///< worst error of a peak, allocated or reserved, in millionths of what was recorded
  std::int64_t family_runs = 0;  ///< of the model type, whatever the rest
  std::int64_t family_worst_ppm = 0;
  bool described = false;  ///< part of it follows published code that no recorded run stands behind: none is near
};
Near near_runs(const Config& config);

/// What of a run is modelled from published code and not held to runs of PyTorch, a line each; as a rule none. For assumptions.
std::vector<std::string> described(const Config& config);

/// Hundredths of a percent, rounded up: what is off at all is not exact.
inline std::int64_t hundredths_of_percent(std::int64_t ppm) { return (ppm + 99) / 100; }

/// "33 recorded runs like this one (…) are predicted to the byte."
std::string in_words(const Near& near);

}  // namespace whatfits
