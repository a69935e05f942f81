// What to change: every switch that the request does not use yet, and pairs of the best of them, tried for real.
#include <algorithm>
#include <map>
#include <utility>
#include <vector>

#include "analysis/changes.h"
#include "analysis/replay.h"
#include "whatfits/estimate.h"
#include "whatfits/jobs.h"
#include "whatfits/request.h"

namespace whatfits {

namespace {

constexpr std::size_t kPairsOfAnEffect = 2;

/// What the run would need in so many steps, or until it repeats, seen on a card on which nothing ever fails.
Counters needs(const Program& program, Config config, int steps) {
  config.device.free_mib = limits::memory_mib;
  return replay(program, config, {.steps = steps, .until_settled = true}).peak;
}

std::int64_t less(Bytes now, Bytes then) { return static_cast<std::int64_t>(now) - static_cast<std::int64_t>(then); }

bool costs_nothing(const Change& change) { return change.cost.starts_with("none"); }

}  // namespace

std::string_view to_string(Effect value) { return value == Effect::same ? "same" : value == Effect::rounding ? "rounding" : "other"; }

AdviseJob::AdviseJob(Config config) : config_(std::move(config)), changes_(applicable_changes(config_)), saves_(changes_.size()) {
  for (std::size_t i = changes_.size(); i-- > 0;) open_.push_back({i, kNone, 0});
}

Config AdviseJob::changed(const Subject& subject) const {
  Config config = config_;
  changes_[subject.first].apply(config);
  if (subject.second != kNone) changes_[subject.second].apply(config);
  return config;
}

Effect AdviseJob::effect(const Subject& subject) const {
  const Effect first = changes_[subject.first].effect;
  return subject.second == kNone ? first : std::max(first, changes_[subject.second].effect);
}

/// The request itself, then each change, then every pair's bytes, then the best pairs.
bool AdviseJob::step() {
  if (!own_figures_ || !open_.empty()) {
    try_one(own_figures_ ? changed(open_.back()) : config_);
  } else if (!paired_) {
    paired_ = true;
    to_weigh_ = pairs();
  } else if (!to_weigh_.empty()) {
    weigh_one();
    if (to_weigh_.empty()) open_ = best_pairs();
  }
  return !own_figures_ || !open_.empty() || !paired_ || !to_weigh_.empty();
}

/// What the subject needs, then the largest batch of it, a replay at a time.
void AdviseJob::try_one(const Config& subject) {
  if (!needs_) {
    const Program program = record(subject);
    needs_ = needs(program, subject, kMaxSteps);
    pace_ = pace(program, subject);
    return;
  }
  if (!fit_) fit_.emplace(subject);
  if (fit_->step()) return;
  const Counters after = *needs_;
  const std::int64_t largest = fit_->largest();
  needs_.reset();
  fit_.reset();
  if (own_figures_) {
    finish_one(subject, after, largest);
    return;
  }
  own_figures_ = true;
  own_pace_ = pace_;
  advices_.needs = after;
  advices_.largest_batch = largest;
  advices_.fits = config_.batch <= largest;
}

void AdviseJob::finish_one(const Config& config, const Counters& after, std::int64_t largest) {
  const Subject subject = open_.back();
  open_.pop_back();
  const Change& first = changes_[subject.first];
  Advice advice;
  advice.config = config;
  advice.changes = differences(config_, config);
  advice.pair = subject.second != kNone;
  advice.effect = effect(subject);
  if (advice.pair) {
    const Change& second = changes_[subject.second];
    advice.name = advice.title = first.name + " + " + second.name;
    advice.cost = costs_nothing(second) ? first.cost : costs_nothing(first) ? second.cost : first.cost + "; " + second.cost;
  } else {
    advice.name = first.name;
    advice.title = first.what.empty() ? first.name : first.name + ": " + first.what;
    advice.cost = first.cost;
  }
  advice.saves = less(advices_.needs.reserved, after.reserved);
  advice.saves_allocated = less(advices_.needs.allocated, after.allocated);
  advice.largest_batch = largest;
  advice.fits = config.batch <= largest;
  advice.time_percent = pace_.percent_of(own_pace_);
  if (!advice.pair) saves_[subject.first] = advice.saves;
  if (advice.pair && advice.saves <= best_single(subject)) return;
  const auto place = std::upper_bound(advices_.list.begin(), advices_.list.end(), advice,
                                      [](const Advice& a, const Advice& b) { return a.saves > b.saves; });
  advices_.list.insert(place, std::move(advice));
}

std::int64_t AdviseJob::best_single(const Subject& pair) const { return std::max(saves_[pair.first], saves_[pair.second]); }

/// Of the changes up to each effect, the best of every key with the best of every other: each on its own saves something.
std::vector<AdviseJob::Subject> AdviseJob::pairs() const {
  std::vector<Subject> list;
  for (const Effect most : {Effect::same, Effect::rounding, Effect::other}) {
    std::map<std::string, std::size_t> best;  // of a key
    for (std::size_t i = 0; i < changes_.size(); ++i) {
      if (!changes_[i].pairs || changes_[i].effect > most || saves_[i] <= 0) continue;
      const auto [place, is_new] = best.emplace(changes_[i].key, i);
      if (!is_new && saves_[i] > saves_[place->second]) place->second = i;
    }
    for (auto one = best.begin(); one != best.end(); ++one) {
      for (auto other = std::next(one); other != best.end(); ++other) {
        const Subject pair{std::min(one->second, other->second), std::max(one->second, other->second), 0};
        const bool listed =
            std::any_of(list.begin(), list.end(), [&](const Subject& s) { return s.first == pair.first && s.second == pair.second; });
        if (!listed && is_valid(changed(pair))) list.push_back(pair);
      }
    }
  }
  return list;
}

void AdviseJob::weigh_one() {
  Subject pair = to_weigh_.back();
  to_weigh_.pop_back();
  const Config config = changed(pair);
  // A few steps tell well enough which pairs are the best; those are then tried to the end.
  pair.saves = less(advices_.needs.reserved, needs(record(config), config, static_cast<int>(config.steps)).reserved);
  if (pair.saves <= best_single(pair)) return;
  const auto most_first = [](const Subject& a, const Subject& b) { return a.saves > b.saves; };
  weighed_.insert(std::upper_bound(weighed_.begin(), weighed_.end(), pair, most_first), pair);
}

/// A few of each effect, of which every one saves more than what is to be had with less effect.
std::vector<AdviseJob::Subject> AdviseJob::best_pairs() {
  std::vector<Subject> list;
  std::int64_t bar = 0;
  for (const Effect wanted : {Effect::same, Effect::rounding, Effect::other}) {
    std::int64_t most = bar;
    std::size_t taken = 0;
    for (const Subject& pair : weighed_) {
      if (effect(pair) != wanted || pair.saves <= bar || taken == kPairsOfAnEffect) continue;
      list.push_back(pair);
      most = std::max(most, pair.saves);
      ++taken;
    }
    bar = most;
  }
  std::reverse(list.begin(), list.end());
  return list;
}

Advices advise(const Config& config) {
  AdviseJob job(config);
  while (job.step()) {
  }
  return job.result();
}

}  // namespace whatfits
