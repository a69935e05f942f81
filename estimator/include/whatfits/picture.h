// What a picture of the step is drawn from. A Program is recorded once and asked many times: dragging a cursor records nothing.
// Functions take a Program and the validated Config it was recorded from.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whatfits/estimate.h"

namespace whatfits {

/// As the functions of the same names in estimate.h.
Report estimate(const Program& program, const Config& config);
Ledger ledger_at(const Program& program, const Config& config, std::uint64_t event);
Timeline timeline(const Program& program, const Config& config, int step = -1);

/// estimate() for a picture that moves: hashes and rows of the ledger are left empty, all else (its sums too) is there. A third
/// of the time.
Report summary(const Program& program, const Config& config);

/// A stretch of a timeline, one value per pixel column. A column stands for one event or more, and shows the moment of its
/// highest `allocated`: no peak is lost, however narrow the picture. With more columns than events, events take several.
struct Columns {
  std::vector<std::uint32_t> row;  ///< by column: index into Timeline::rows of its highest `allocated`, the first of equals
  std::vector<Bytes> allocated;    ///< there
  std::vector<Bytes> reserved;     ///< the highest in the column
  std::array<std::vector<Bytes>, kCategories> categories;  ///< by category, then column: at `row`; they sum to `allocated`
};
/// Rows [begin, end) of the timeline in `width` columns. Bounds are cut to what there is; nothing to show gives no columns.
Columns columns(const Timeline& timeline, std::size_t begin, std::size_t end, std::size_t width);

/// One block of the pool, with the tensor in it.
struct PoolBlock {
  std::uint64_t address = 0;
  Bytes size = 0;
  bool allocated = false;
  Bytes requested = 0;  ///< by the tensor in it; 0 in a free block
  Category category = Category::rounding;
  std::string label;  ///< empty in a free block
  std::int16_t layer = kNoLayer;
  OpKind op = OpKind::none;
};
struct PoolSegment {
  std::uint64_t address = 0;
  Bytes size = 0;
  bool small = false;             ///< of the pool for requests up to 1 MiB
  std::vector<PoolBlock> blocks;  ///< in address order; they cover the segment
};
/// What the caching allocator holds at one moment.
struct Pool {
  Moment at;
  Counters counters;
  std::vector<PoolSegment> segments;  ///< in address order
  std::optional<OutOfMemory> oom;     ///< if the moment is the run's end and it ended so
};
/// Right after allocation or free number `event`. An event beyond the last gives the run's end: where it failed, after
/// everything that could be given back had been.
Pool pool_at(const Program& program, const Config& config, std::uint64_t event);

}  // namespace whatfits
