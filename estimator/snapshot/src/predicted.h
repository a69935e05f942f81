// The predicted run as a list of allocations, to lay a measured one over.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "whatfits/config.h"
#include "whatfits/measured.h"
#include "whatfits/program.h"
#include "whatfits/report.h"

namespace whatfits::snapshot {

struct PredictedAllocation {
  StorageId storage = 0;
  int step = 0;
  Bytes block = 0;             ///< what the allocator took for it
  std::size_t freed = kNever;  ///< how many allocations had been made when it was freed
  int freed_step = 0;          ///< in which step, if it was
  Bytes allocated = 0;         ///< right after it was made
  Bytes allocated_later = 0;   ///< right before the next was made
};

struct PredictedRun {
  std::vector<PredictedAllocation> allocations;  ///< of the setup and all steps, in order
  std::vector<std::size_t> step_ends;            ///< [k]: how many had been made when step k ended; [0]: the setup
  Counters peak;                                 ///< of everything, the setup included
};

/// `steps` steps, on a card that is never full.
PredictedRun predict(const Program& program, const Config& config, int steps);

/// Counters right after every allocation and free, and which of them each allocation is.
struct PredictedPoints {
  std::vector<Counters> points;
  std::vector<std::size_t> made_at;  ///< by the index of PredictedRun::allocations: index into `points`
};
PredictedPoints predict_points(const Program& program, const Config& config, int steps);

}  // namespace whatfits::snapshot
