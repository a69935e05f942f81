// What a measured run held right after one event: whose tensors are alive, and how the allocator's segments are split.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "whatfits/json.h"
#include "whatfits/measured.h"

namespace whatfits::snapshot {

/// "train.py:31 in step": the user's line of a stack; "unknown place" if the recording has none.
std::string place_of(const Snapshot& snapshot, StackId stack);

/// A line of the script, and what it made that is alive.
struct Holder {
  std::string place;  ///< place_of()
  Bytes bytes = 0;    ///< of their blocks
  std::uint64_t tensors = 0;
};

/// The largest first; `event` is an index into the trace that `run` was told from.
std::vector<Holder> holders(const Snapshot& snapshot, const MeasuredRun& run, std::size_t event);

/// One pool of a MeasuredPool in figures.
struct Pieces {
  std::size_t segments = 0;
  std::size_t blocks = 0;  ///< in use, or waiting for a stream
  std::size_t free_pieces = 0;
  Bytes reserved = 0;
  Bytes used = 0;
  Bytes largest_free = 0;
};

/// Of the pool for requests to 1 MiB (`small`), or of the other.
Pieces count_pieces(const MeasuredPool& pool, bool small);

/// {"events", "events_in_file", "allocations", "at", "action", "size", "place", "counters", "at_end", "retries", "holders", "failures",
/// "segments"}: bytes, and event indices. `event` is at most the trace's last, `pool` what there was after it.
Json moment_json(const Snapshot& snapshot, const MeasuredRun& run, std::size_t device, std::size_t event, const MeasuredPool& pool);

}  // namespace whatfits::snapshot
