// The longest common run of two sequences of sizes.
#pragma once

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

#include "whatfits/bytes.h"

namespace whatfits::snapshot {

struct Alignment {
  std::vector<std::pair<std::size_t, std::size_t>> pairs;  ///< (index in a, index in b), both rising
  std::size_t distance = 0;                                ///< elements that stand alone in either
};

/// E. W. Myers, An O(ND) Difference Algorithm and Its Variations (1986). Nothing if more than `most` elements stand alone.
std::optional<Alignment> align(const std::vector<Bytes>& a, const std::vector<Bytes>& b, std::size_t most);

}  // namespace whatfits::snapshot
