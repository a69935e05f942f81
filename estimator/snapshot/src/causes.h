// Why a measured run and a prediction differ.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

#include "predicted.h"
#include "whatfits/compare.h"
#include "whatfits/config.h"

namespace whatfits::snapshot {

/// A measured run with its prediction beside it.
struct LaidOver {
  const Snapshot& snapshot;
  const std::vector<TraceEvent>& trace;
  const MeasuredRun& measured;
  const Program& program;
  const Config& roomy;      ///< the request on a card that is never full
  const Config& requested;  ///< the request
  const PredictedRun& predicted;
  const std::vector<std::pair<std::size_t, std::size_t>>& pairs;  ///< (measured, predicted) allocations that are the same
  int steps;
};

Comparison find_causes(const LaidOver& both);

}  // namespace whatfits::snapshot
