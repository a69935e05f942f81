// The long questions in small steps, for a caller that must not block: a page, a progress bar, a cancel button.
// Each step is one recording and one replay; the answers are those of fit(), sweep() and advise().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "whatfits/estimate.h"

namespace whatfits {

/// fit(), a replay at a time.
class FitJob {
 public:
  explicit FitJob(Config config, Axis axis = Axis::batch);

  /// Replays one more candidate. False once the answer is known (and then does nothing).
  bool step();
  int replays() const { return static_cast<int>(tried_.size()); }
  /// Valid once step() has returned false.
  std::int64_t largest() const { return answer_; }
  /// The whole answer, with the report of the largest value: as much work again as one estimate(). Call once step() is false.
  Fit result() const;

 private:
  struct Next;
  Next next() const;
  Config at(std::int64_t value) const;

  Config config_;
  Axis axis_;
  std::int64_t limit_;
  std::map<std::int64_t, Trace> tried_;
  bool done_ = false;
  std::int64_t answer_ = 0;
  std::int64_t failure_ = 0;  // 0: none was seen
};

/// One cell of a sweep.
SweepCell sweep_cell(const Config& config, std::int64_t batch, std::int64_t seq_len);

/// advise(), a replay at a time.
class AdviseJob {
 public:
  explicit AdviseJob(Config config);

  /// One replay more. False once every change has been tried.
  bool step();
  std::size_t done() const { return advices_.list.size(); }
  std::size_t total() const { return advices_.list.size() + open_.size(); }
  /// What is known so far: the request's own figures after its first steps, then one advice after another, most saving first.
  const Advices& result() const { return advices_; }

 private:
  void finish_one(const Counters& after, std::int64_t largest);

  Config config_;
  Advices advices_;
  std::vector<Advice> open_;  // changes to try, next one last
  bool own_figures_ = false;  // of the request itself: known
  Pace own_pace_;
  Pace pace_;  // of the program that needs_ is of
  std::optional<Counters> needs_;
  std::optional<FitJob> fit_;
};

}  // namespace whatfits
