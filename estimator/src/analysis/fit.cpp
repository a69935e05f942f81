#include "analysis/replay.h"
#include "analysis/report.h"
#include "whatfits/estimate.h"
#include "whatfits/jobs.h"
#include "whatfits/request.h"

namespace whatfits {

namespace {

Trace replay_until_settled(const Config& config) {
  if (config.engine != Engine::torch) return account_report(config).trace;
  return replay(record(config), config, {.steps = kMaxSteps, .until_settled = true});
}

bool goes_on(const Config& config, const Trace& trace) {
  return config.engine != Engine::torch ? trace.fits() : trace.goes_on(kMaxSteps, static_cast<Bytes>(config.device.free_mib) * MiB);
}

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

/// The search is a function of the answers so far: it gives the value to try next or, when it needs no more, the answer.
struct FitJob::Next {
  std::int64_t value = 0;  ///< to try; 0: the answer is known
  std::int64_t largest = 0;
  std::int64_t failure = 0;
};

FitJob::FitJob(Config config, Axis axis) : config_(std::move(config)), axis_(axis), limit_(upper_limit(config_, axis)) {}

Config FitJob::at(std::int64_t value) const {
  Config c = config_;
  (axis_ == Axis::batch ? c.batch : c.seq_len) = value;
  return c;
}

FitJob::Next FitJob::next() const {
  const auto fits = [this](std::int64_t value) -> std::optional<bool> {
    const auto entry = tried_.find(value);
    if (entry == tried_.end()) return std::nullopt;
    return goes_on(config_, entry->second);
  };
  // A fit and, above it, a failure.
  std::int64_t good = 0;
  std::int64_t bad = 0;
  for (std::int64_t value = 1; bad == 0;) {
    const std::optional<bool> fit = fits(value);
    if (!fit) return {.value = value};
    if (!*fit) {
      bad = value;
    } else {
      good = value;
      if (value == limit_) break;
      value = value > limit_ / 2 ? limit_ : 2 * value;
    }
  }
  while (bad != 0 && bad - good > 1) {
    const std::int64_t middle = good + (bad - good) / 2;
    const std::optional<bool> fit = fits(middle);
    if (!fit) return {.value = middle};
    (*fit ? good : bad) = middle;
  }
  // Fragmentation is not monotone: a smaller batch may fail where a larger one fits. The answer is below every failure seen.
  for (std::int64_t value = good - 1; value >= 1 && value >= good - 8; --value) {
    const std::optional<bool> fit = fits(value);
    if (!fit) return {.value = value};
    if (!*fit) bad = value;
  }
  std::int64_t answer = bad != 0 ? bad - 1 : good;
  while (answer >= 1) {
    const std::optional<bool> fit = fits(answer);
    if (!fit) return {.value = answer};
    if (*fit) break;
    bad = answer--;
  }
  return {.largest = answer, .failure = bad};
}

bool FitJob::step() {
  if (done_) return false;
  Next todo = next();
  if (todo.value != 0) {
    tried_.emplace(todo.value, replay_until_settled(at(todo.value)));
    todo = next();
  }
  if (todo.value != 0) return true;
  answer_ = todo.largest;
  failure_ = todo.failure;
  done_ = true;
  return false;
}

Fit FitJob::result() const {
  Fit result;
  result.axis = axis_;
  result.largest = answer_;
  result.capped = failure_ == 0;
  if (answer_ >= 1) {
    const Config c = at(answer_);
    result.report = c.engine != Engine::torch ? account_report(c) : make_report(c, record(c), tried_.at(answer_));
  }
  if (failure_ != 0) {
    result.first_failure_at = failure_;
    result.first_failure = tried_.at(failure_).oom;
    if (const auto& oom = result.first_failure) {
      const Bytes free = static_cast<Bytes>(config_.device.free_mib) * MiB;
      result.bound_by = oom->counters.allocated + oom->tensor > free ? "allocated" : "reserved";
    }
  }
  result.replays = replays();
  return result;
}

Fit fit(const Config& config, Axis axis) {
  FitJob job(config, axis);
  while (job.step()) {
  }
  return job.result();
}

SweepCell sweep_cell(const Config& config, std::int64_t batch, std::int64_t seq_len) {
  Config c = config;
  c.batch = batch;
  c.seq_len = seq_len;
  const Trace trace = replay_until_settled(c);
  SweepCell cell;
  cell.batch = batch;
  cell.seq_len = seq_len;
  cell.fits = goes_on(c, trace);
  cell.peak = trace.peak;
  cell.drifts = trace.fits() && !cell.fits;
  if (trace.oom) cell.failed_step = trace.oom->at.step;
  return cell;
}

std::vector<SweepCell> sweep(const Config& config, const std::vector<std::int64_t>& batches, const std::vector<std::int64_t>& seq_lens,
                             const std::function<bool(std::size_t)>& progress) {
  std::vector<SweepCell> cells;
  cells.reserve(batches.size() * seq_lens.size());
  for (const std::int64_t batch : batches) {
    for (const std::int64_t seq_len : seq_lens) {
      cells.push_back(sweep_cell(config, batch, seq_len));
      if (progress && !progress(cells.size())) return cells;
    }
  }
  return cells;
}

}  // namespace whatfits
