// A measured run laid over the prediction of its request: which tensors are only in one, which live longer, and why.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whatfits/config.h"
#include "whatfits/json.h"
#include "whatfits/measured.h"
#include "whatfits/report.h"

namespace whatfits::snapshot {

/// Tensors that differ for one reason.
struct Cause {
  enum class Kind : std::uint8_t {
    kept,            ///< in both; lives longer than the prediction has it
    freed_early,     ///< in both; lives shorter
    forward_pass,    ///< a forward pass that the step does not have
    optimizer_copy,  ///< a second optimizer's state
    model_copy,      ///< parameters once more
    extra,           ///< only measured, and none of the above
    missing,         ///< only predicted
    rounding,        ///< the same tensors in blocks of other sizes
    other_process    ///< not in this process at all
  };
  Kind kind = Kind::extra;
  std::string title;  ///< "logits stay alive after their step"
  std::string advice;
  std::int64_t tensors = 0;
  std::int64_t times = 0;    ///< of a pass or a copy: how often
  std::int64_t at_peak = 0;  ///< bytes by which it moves the measured peak
  std::int64_t at_end = 0;   ///< bytes that it leaves alive when the recording ends
  StackId stack = kNoStack;  ///< where the first of its tensors was made
};

struct Comparison {
  int steps = 0;  ///< as many as the recording has
  std::size_t measured_allocations = 0;
  std::size_t predicted_allocations = 0;
  std::size_t matched = 0;
  Counters measured_peak;
  Counters predicted_peak;
  std::int64_t difference = 0;   ///< measured less predicted, of `allocated` when the measured run was at its peak
  std::int64_t unexplained = 0;  ///< what the causes leave of it
  std::size_t order = 0;         ///< tensors freed a little earlier or later, which move no peak
  std::vector<Cause> causes;     ///< the largest first
  /// One for each measured event: where the prediction is then. It goes on with each allocation and free that both have.
  std::vector<Counters> beside;
};

/// The prediction is given as many steps as fit the recording best. Nothing when the two have too little in common to be laid over
/// each other.
std::optional<Comparison> compare(const Snapshot& snapshot, const MeasuredRun& run, std::size_t device, const Config& config);

/// Some cause of this process moves the peak or the end by more than `tolerance` bytes; blocks of other sizes are none.
bool differs(const Comparison& comparison, std::int64_t tolerance);
/// What differs() allows where nobody says otherwise.
inline constexpr std::int64_t kTolerance = std::int64_t{1} << 20;

Json to_json(const Comparison& comparison, const Snapshot& snapshot);
Json to_json(const Failure& failure);

}  // namespace whatfits::snapshot
