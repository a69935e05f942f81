#pragma once

#include <vector>

#include "analysis/replay.h"
#include "whatfits/report.h"

namespace whatfits {

/// What is alive after event number `event` of the run, at most `steps` steps long. Ends where the run ends when that is earlier.
Ledger make_ledger(const Program& program, const Config& config, std::uint64_t event, int steps);

/// The same without its rows; `alive`, by storage, is what they would be made of.
Ledger make_sums(const Program& program, const Config& config, std::uint64_t event, int steps, std::vector<bool>& alive);

}  // namespace whatfits
