// How far predictions of runs like one have been from recorded runs of PyTorch, and from runs on real cards.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/config.h"

namespace whatfits {

/// Recorded runs (fixtures/torch/) of one model type that share precision, attention, checkpointing, adapters or none, and strategy of
/// several cards or none. Source: the table that accuracy_table --near writes from the fixtures.
struct Near {
  std::int64_t runs = 0;
  std::int64_t worst_ppm = 0;    ///< worst error of a peak, allocated or reserved, in millionths of what was recorded
  std::int64_t family_runs = 0;  ///< of the model type, whatever the rest
  std::int64_t family_worst_ppm = 0;
  bool described = false;  ///< part of it follows published code that no recorded run stands behind: none is near
};
Near near_runs(const Config& config);

/// Runs on real cards (fixtures/published/) whose peak PyTorch itself counted, and how far predictions of those peaks are from that.
/// Source: the table that accuracy_table --cards writes from the fixtures.
struct CardRuns {
  std::int64_t near = 0;    ///< that share what Near::runs share, and whether the frozen weights are quantised
  std::int64_t family = 0;  ///< of the model type, whatever the rest
  std::int64_t all = 0;     ///< of any model
  enum class Band : std::uint8_t { near, family, all } band = Band::all;  ///< whose errors follow: the first of the three that has a run
  std::int64_t least_ppm = 0;  ///< of a peak, allocated or reserved, in millionths of what was counted; negative: predicted too low
  std::int64_t most_ppm = 0;
};
CardRuns card_runs(const Config& config);

/// What of a run is modelled from published code and not held to runs of PyTorch, a line each; as a rule none. For assumptions.
std::vector<std::string> described(const Config& config);

/// Hundredths of a percent, rounded up: what is off at all is not exact.
inline std::int64_t hundredths_of_percent(std::int64_t ppm) { return (ppm + 99) / 100; }

/// "33 recorded runs like this one (…) are predicted to the byte."
std::string in_words(const Near& near);

/// "4 runs on real cards are like it; their peaks are predicted from 0.01 % below to 0.01 % above what PyTorch counted."
std::string in_words(const CardRuns& runs);

/// "near", "family", "all".
std::string_view to_string(CardRuns::Band band);

}  // namespace whatfits
