// The numbers of PyTorch's caching allocator, in bytes. Source: c10/cuda/CUDACachingAllocator.cpp, version 2.6 (the upstream
// name is beside each), all confirmed by the traces in fixtures/torch/traces.
#pragma once

#include "whatfits/bytes.h"

namespace whatfits::torch_policy {

/// Every request is rounded up to a multiple of this; also the least tail that is split off in the small pool and in
/// expandable segments. kMinBlockSize
inline constexpr Bytes block_unit = 512;
/// The largest (rounded) request of the small pool; in the large pool a tail must be larger than this to be split off. kSmallSize
inline constexpr Bytes small_request = MiB;
/// A segment of the small pool; the unit in which its expandable segment grows. kSmallBuffer
inline constexpr Bytes small_segment = 2 * MiB;
/// Requests below this share segments of `large_segment`; from here on a request gets a segment of its own size. kMinLargeAlloc
inline constexpr Bytes own_segment_request = 10 * MiB;
/// A shared segment of the large pool; the unit in which its expandable segment grows. kLargeBuffer
inline constexpr Bytes large_segment = 20 * MiB;
/// A segment for one large request is a multiple of this. kRoundLarge
inline constexpr Bytes own_segment_unit = 2 * MiB;
/// More than this is out of memory without asking the device. one_exa_bytes
inline constexpr Bytes max_request = Bytes{1} << 60;

/// The block that serves a request, before a tail too small to split off is added. round_size()
constexpr Bytes block_size(Bytes requested) { return requested == 0 ? block_unit : round_up(requested, block_unit); }

/// The same with roundup_power2_divisions > 1: up to the next of `divisions` steps between two powers of two.
/// roundup_power2_next_division(). `divisions` must be a power of two.
constexpr Bytes block_size(Bytes requested, Bytes divisions) {
  if (divisions <= 1 || requested <= block_unit * divisions) return block_size(requested);
  Bytes power = 1;
  while (power * 2 <= requested) power *= 2;
  return power == requested ? requested : round_up(requested, power / divisions);
}

constexpr bool is_small(Bytes block) { return block <= small_request; }

/// What the device is asked for when no cached block fits; also the amount in the out-of-memory message. get_allocation_size()
constexpr Bytes segment_size(Bytes block) {
  if (is_small(block)) return small_segment;
  if (block < own_segment_request) return large_segment;
  return round_up(block, own_segment_unit);
}

/// Whether a block gives back the tail that a request leaves of it. should_split()
constexpr bool splits(Bytes tail, bool small, bool expandable) { return small || expandable ? tail >= block_unit : tail > small_request; }

/// With max_split_size, how much larger than a request of at least that size the cached block may be that serves it.
/// kLargeBuffer, as max_non_split_rounding_size()
inline constexpr Bytes oversize_slack = large_segment;

constexpr Bytes expandable_unit(bool small) { return small ? small_segment : large_segment; }

/// The address range of an expandable segment: 9/8 of the device's memory, in whole units. ExpandableSegment::ExpandableSegment
constexpr Bytes expandable_range(Bytes total, bool small) { return round_up(total + total / 8, expandable_unit(small)); }

}  // namespace whatfits::torch_policy
