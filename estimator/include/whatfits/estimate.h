// The questions one can ask. Every function takes a validated Config (see request.h), never fails, never prints, and gives
// the same answer to the bit on every machine.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/closed_forms.h"
#include "whatfits/config.h"
#include "whatfits/program.h"
#include "whatfits/report.h"
#include "whatfits/request.h"

namespace whatfits {

/// The run as a program: two steps of the training script (see Program).
Program record(const Config& config);

/// Replays config.steps steps and accounts for the peak.
Report estimate(const Config& config);

/// Everything alive right after allocation or free number `event` (counted from the start of the program, as Moment::event). Ends
/// where the run ends when there are fewer.
Ledger ledger_at(const Config& config, std::uint64_t event);

enum class Axis : std::uint8_t { batch, seq_len };

struct Fit {
  Axis axis = Axis::batch;
  std::int64_t largest = 0;           ///< largest value with which the run goes on (Trace::goes_on); 0: not even one does
  bool capped = false;                ///< `largest` is the most the request's language (or the model) allows; nothing was seen to fail
  std::optional<Report> report;       ///< of `largest`, replayed until it settled
  std::int64_t first_failure_at = 0;  ///< the value right above it
  std::optional<OutOfMemory> first_failure;  ///< of that value; absent if it only went on taking memory for 64 steps
  std::string bound_by;  ///< "allocated": live tensors alone exceed what is free; "reserved": the pool is in pieces too small
  int replays = 0;
};
/// The largest value of `axis` for which the run goes on, everything else as in `config`: each candidate is replayed until
/// the allocator's state recurs (at most 64 steps). Bisection finds a failure right above a fit; the eight values below are replayed
/// too, since fragmentation is not monotone.
Fit fit(const Config& config, Axis axis = Axis::batch);

struct SweepCell {
  std::int64_t batch = 0;
  std::int64_t seq_len = 0;
  bool fits = false;    ///< goes on without running out of memory
  bool drifts = false;  ///< did not run out of memory in 64 steps, but went on taking more of it
  Counters peak;        ///< the highest up to the end or the failure
  int failed_step = 0;  ///< 0 if none did
};
/// Batch-major grid. `progress` (may be empty) is called after each cell with the number done; returning false stops there.
std::vector<SweepCell> sweep(const Config& config, const std::vector<std::int64_t>& batches, const std::vector<std::int64_t>& seq_lens,
                             const std::function<bool(std::size_t done)>& progress = {});

/// One change of the request and what it buys.
/// What a change does to what is learned.
enum class Effect : std::uint8_t {
  same,      ///< nothing: the same sums, if in another order
  rounding,  ///< the same recipe, rounded more
  other,     ///< another recipe: optimizer, length, what is trained
};
std::string_view to_string(Effect value);

struct Advice {
  std::vector<Setting> changes;  ///< of the request
  std::string name;              ///< for people: "fused attention"
  std::string title;             ///< the same with what it does: "fused attention: the scores are never stored"
  std::string cost;              ///< what it costs, in words
  bool pair = false;             ///< two changes at once
  Effect effect = Effect::same;
  Config config;           ///< the request with the change made
  std::int64_t saves = 0;  ///< bytes of `reserved` at the peak, on a card without limit; negative if it takes more
  std::int64_t saves_allocated = 0;
  bool fits = false;               ///< the changed request, at its own batch
  std::int64_t largest_batch = 0;  ///< with the change
  int time_percent = 0;            ///< of the request's own time a token, by the operators' work; 0 if the card's rates are not known
};
struct Advices {
  Counters needs;  ///< peak of the request as it is, on a card without limit
  bool fits = false;
  std::int64_t largest_batch = 0;
  std::vector<Advice> list;  ///< changes, and pairs of two, most saving first
};
Advices advise(const Config& config);

/// One allocation or free of a step, for a picture.
struct TimelineRow {
  std::uint64_t event = 0;
  bool alloc = false;
  Bytes bytes = 0;
  Phase phase = Phase::forward;
  std::int16_t layer = kNoLayer;
  OpKind op = OpKind::none;                     ///< that asked for the tensor
  std::uint32_t label = 0;                      ///< index into Timeline::labels
  Counters counters;                            ///< after it
  std::array<Bytes, kCategories> categories{};  ///< bytes asked for by what is alive after it; rounding makes up `allocated`
};
struct Timeline {
  int step = 0;  ///< 0: what comes before the first
  std::vector<TimelineRow> rows;
  std::vector<std::string> labels;
  std::optional<OutOfMemory> oom;  ///< if the run ends in this step
};
/// Step `step` (0 for the setup, -1 for the last of config.steps) event by event.
Timeline timeline(const Config& config, int step = -1);

/// The closed-form accounts beside the replay.
struct Explanation {
  GeneralAccount general;
  ClosedEstimate measured;  ///< by the measured article's calculator
  Report report;            ///< the replay's
};
Explanation explain(const Config& config);

}  // namespace whatfits
