// The long questions in small steps, for a caller that must not block: a page, a progress bar, a cancel button.
// Each step is one recording and one replay; the answers are those of fit(), sweep() and advise().
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
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

/// A switch that advise tries.
struct Change {
  std::string key;  ///< of the request: changes of one key exclude each other
  Effect effect = Effect::same;
  std::string name, what;  ///< "fused attention", "the scores are never stored"
  std::string cost;
  void (*apply)(Config& config) = nullptr;
  bool pairs = true;  ///< worth being half of a pair
};

/// advise(), a replay at a time.
class AdviseJob {
 public:
  explicit AdviseJob(Config config);

  /// One replay more. False once every change and the best pairs have been tried.
  bool step();
  std::size_t done() const { return advices_.list.size(); }
  /// Grows once: which pairs are worth it is known when the changes have been tried.
  std::size_t total() const { return advices_.list.size() + open_.size(); }
  /// What is known so far: the request's own figures after its first steps, then one advice after another, most saving first.
  const Advices& result() const { return advices_; }

 private:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);
  /// One change or two, by their places in changes_.
  struct Subject {
    std::size_t first = 0, second = kNone;
    std::int64_t saves = 0;  // of a pair that was weighed: in a few steps
  };
  Config changed(const Subject& subject) const;
  Effect effect(const Subject& subject) const;
  void try_one(const Config& subject);
  void finish_one(const Config& config, const Counters& after, std::int64_t largest);
  std::int64_t best_single(const Subject& pair) const;
  std::vector<Subject> pairs() const;
  void weigh_one();
  std::vector<Subject> best_pairs();

  Config config_;
  Advices advices_;
  std::vector<Change> changes_;
  std::vector<std::int64_t> saves_;  // of each change, once it was tried
  std::vector<Subject> open_;        // to try, next one last
  std::vector<Subject> to_weigh_, weighed_;
  bool own_figures_ = false;  // of the request itself: known
  bool paired_ = false;
  Pace own_pace_;
  Pace pace_;  // of the program that needs_ is of
  std::optional<Counters> needs_;
  std::optional<FitJob> fit_;
};

}  // namespace whatfits
