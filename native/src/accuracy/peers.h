// What other memory calculators answer for the same run: their formulas, restated from what each computes. Nothing of theirs is
// here but arithmetic, and nothing of it is used for a prediction.
#pragma once

#include <cstdint>
#include <vector>

#include "whatfits/config.h"

namespace whatfits::accuracy {

struct Peer {
  const char* name;
  /// In N (parameters; where "its N" is said, by the tool's own count), L, h, a, f, V, s, b and bytes a value (4); MiB and GB as it
  /// has them.
  const char* formula;
  /// Bytes at the peak of a plain fp32 run (plain_peaks()). Tools for 16-bit training only give their own recipe.
  double (*bytes)(const Config& config);
};

const std::vector<Peer>& peers();

}  // namespace whatfits::accuracy
