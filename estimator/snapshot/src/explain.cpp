// Why a request could not be met, in words.
#include <algorithm>
#include <string>

#include "whatfits/estimate.h"
#include "whatfits/measured.h"

namespace whatfits::snapshot {

std::string explain(const Failure& failure) {
  const Bytes wanted = failure.asked;
  std::string text = "asked for " + format_size(wanted) + "; " + format_size(failure.counters.allocated) + " were in use, and " +
                     format_size(failure.device_free) + " were free on the device, which was asked for " + format_size(failure.segment) +
                     ". ";
  const std::string pool = failure.small_pool ? "pool of small blocks (up to 1 MiB)" : "pool of large blocks (over 1 MiB)";
  if (failure.pieces.empty()) {
    text += "PyTorch's " + pool + " had nothing free. ";
  } else {
    text += "PyTorch's " + pool + " had " + format_size(failure.pieces_total) + " free in " + std::to_string(failure.pieces.size()) +
            (failure.pieces.size() == 1 ? " piece" : " pieces, the largest of " + format_size(failure.pieces.front())) + ". ";
  }
  if (failure.bound_by == "allocated") {
    const Bytes can_have = failure.counters.reserved + failure.device_free;
    const Bytes needs = failure.counters.active + wanted;
    text += "Bound by allocated: what is alive and this tensor come to " + format_size(needs) + ", and the process can have " +
            format_size(can_have) + ": " + format_size(needs - can_have) +
            " too much, however well the pool is used. A smaller batch, checkpointing or a smaller type would let it through.";
  } else {
    text +=
        "Bound by reserved: the bytes are there, in pieces too small. PYTORCH_CUDA_ALLOC_CONF=expandable_segments:True joins them; "
        "so would any " +
        format_size(failure.segment - std::min(failure.segment, failure.device_free)) + " less in other segments.";
  }
  if (failure.other_pool > 0) text += " The other pool's " + format_size(failure.other_pool) + " free cannot serve a tensor of this size.";
  return text;
}

}  // namespace whatfits::snapshot
