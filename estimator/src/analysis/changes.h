// The switches that advise tries.
#pragma once

#include <vector>

#include "whatfits/jobs.h"

namespace whatfits {

/// Every change that `now` does not have yet and that makes a valid request of it, none of them tried.
std::vector<Change> applicable_changes(const Config& now);

/// Not every switch goes with every model, card and other switch.
bool is_valid(const Config& config);

}  // namespace whatfits
