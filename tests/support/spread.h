// Requests that have everything once: for what must hold of every run.
#pragma once

#include <string>
#include <vector>

#include "whatfits/config.h"

namespace whatfits::testing {

struct NamedConfig {
  std::string name;
  Config config;
};

/// A two-block model with every combination of precision, attention, optimizer and checkpointing that is allowed, three steps.
std::vector<NamedConfig> combinations();

/// Accumulation, clipping, filled gradients, odd and tiny dimensions, several cards, expandable segments, no warm-up, long runs.
std::vector<NamedConfig> oddities();

/// Both.
std::vector<NamedConfig> spread();

}  // namespace whatfits::testing
