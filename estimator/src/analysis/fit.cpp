#include <map>

#include "analysis/replay.h"
#include "analysis/report.h"
#include "whatfits/estimate.h"
#include "whatfits/request.h"

namespace whatfits {

namespace {

Trace replay_until_settled(const Config& config) {
  return replay(record(config), config, {.steps = kMaxSteps, .until_settled = true});
}

bool goes_on_for_ever(const Trace& trace) { return trace.fits() && trace.settled.has_value(); }

/// Tries values of one axis and remembers the answers.
class Search {
 public:
  Search(const Config& config, Axis axis) : config_(config), axis_(axis) {}

  Config at(std::int64_t value) const {
    Config c = config_;
    (axis_ == Axis::batch ? c.batch : c.seq_len) = value;
    return c;
  }

  bool fits(std::int64_t value) {
    const auto [entry, fresh] = tried_.try_emplace(value);
    const bool formula = config_.engine == Engine::formula;
    if (fresh) entry->second = formula ? formula_report(at(value)).trace : replay_until_settled(at(value));
    return formula ? entry->second.fits() : goes_on_for_ever(entry->second);
  }

  Report report(std::int64_t value) const {
    const Config c = at(value);
    return c.engine == Engine::formula ? formula_report(c) : make_report(c, record(c), trace(value));
  }

  const Trace& trace(std::int64_t value) const { return tried_.at(value); }
  int replays() const { return static_cast<int>(tried_.size()); }

 private:
  const Config& config_;
  Axis axis_;
  std::map<std::int64_t, Trace> tried_;
};

/// Largest value the axis may take at all.
std::int64_t upper_limit(const Config& config, Axis axis) {
  if (axis == Axis::seq_len) return config.model.n_positions;
  // Beyond this even counting the step's bytes would overflow.
  std::int64_t low = 1;
  std::int64_t high = limits::batch;
  Config c = config;
  while (low < high) {
    const std::int64_t middle = low + (high - low + 1) / 2;
    c.batch = middle;
    if (bytes_bound(c) < limits::step_bytes) {
      low = middle;
    } else {
      high = middle - 1;
    }
  }
  return low;
}

}  // namespace

Fit fit(const Config& config, Axis axis) {
  Search search(config, axis);
  Fit result;
  result.axis = axis;
  const std::int64_t limit = upper_limit(config, axis);

  // A fit and, above it, a failure.
  std::int64_t good = 0;
  std::int64_t bad = 0;
  for (std::int64_t value = 1; bad == 0;) {
    if (search.fits(value)) {
      good = value;
      if (value == limit) break;
      value = value > limit / 2 ? limit : 2 * value;
    } else {
      bad = value;
    }
  }
  while (bad != 0 && bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    (search.fits(middle) ? good : bad) = middle;
  }
  // Fragmentation is not monotone: a smaller batch may fail where a larger one fits. The answer is below every failure seen.
  for (std::int64_t value = good - 1; value >= 1 && value >= good - 8; --value) {
    if (!search.fits(value)) bad = value;
  }
  std::int64_t answer = bad != 0 ? bad - 1 : good;
  while (answer >= 1 && !search.fits(answer)) bad = answer--;

  result.largest = answer;
  result.capped = bad == 0;
  if (answer >= 1) result.report = search.report(answer);
  if (bad != 0) {
    result.first_failure_at = bad;
    result.first_failure = search.trace(bad).oom;
    if (const auto& oom = result.first_failure) {
      const Bytes free = static_cast<Bytes>(config.device.free_mib) * MiB;
      result.bound_by = oom->counters.allocated + oom->tensor > free ? "allocated" : "reserved";
    }
  }
  result.replays = search.replays();
  return result;
}

std::vector<SweepCell> sweep(const Config& config, const std::vector<std::int64_t>& batches, const std::vector<std::int64_t>& seq_lens,
                             const std::function<bool(std::size_t)>& progress) {
  std::vector<SweepCell> cells;
  cells.reserve(batches.size() * seq_lens.size());
  for (const std::int64_t batch : batches) {
    for (const std::int64_t seq_len : seq_lens) {
      Config c = config;
      c.batch = batch;
      c.seq_len = seq_len;
      const bool formula = c.engine == Engine::formula;
      const Trace trace = formula ? formula_report(c).trace : replay_until_settled(c);
      SweepCell cell;
      cell.batch = batch;
      cell.seq_len = seq_len;
      cell.fits = formula ? trace.fits() : goes_on_for_ever(trace);
      cell.peak = trace.peak;
      if (trace.oom) cell.failed_step = trace.oom->at.step;
      cells.push_back(cell);
      if (progress && !progress(cells.size())) return cells;
    }
  }
  return cells;
}

}  // namespace whatfits
