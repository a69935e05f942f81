#include <algorithm>

#include "whatfits/picture.h"

namespace whatfits {

Columns columns(const Timeline& timeline, std::size_t begin, std::size_t end, std::size_t width) {
  Columns out;
  end = std::min(end, timeline.rows.size());
  if (begin >= end || width == 0) return out;
  const std::uint64_t rows = end - begin;
  out.row.reserve(width);
  out.allocated.reserve(width);
  out.reserved.reserve(width);
  for (auto& category : out.categories) category.reserve(width);
  for (std::uint64_t x = 0; x < width; ++x) {
    const std::size_t from = begin + static_cast<std::size_t>(x * rows / width);
    const std::size_t to = std::max(from + 1, begin + static_cast<std::size_t>((x + 1) * rows / width));
    std::size_t highest = from;
    Bytes reserved = 0;
    for (std::size_t i = from; i < to; ++i) {
      const Counters& counters = timeline.rows[i].counters;
      if (counters.allocated > timeline.rows[highest].counters.allocated) highest = i;
      reserved = std::max(reserved, counters.reserved);
    }
    const TimelineRow& row = timeline.rows[highest];
    out.row.push_back(static_cast<std::uint32_t>(highest));
    out.allocated.push_back(row.counters.allocated);
    out.reserved.push_back(reserved);
    for (std::size_t c = 0; c < out.categories.size(); ++c) out.categories[c].push_back(row.categories[c]);
  }
  return out;
}

}  // namespace whatfits
