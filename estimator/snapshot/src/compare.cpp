#include "whatfits/compare.h"

#include <algorithm>
#include <cstdlib>
#include <map>
#include <unordered_map>
#include <utility>

#include "align.h"
#include "causes.h"
#include "predicted.h"
#include "whatfits/estimate.h"
#include "whatfits/request.h"

namespace whatfits::snapshot {

namespace {

/// More lone allocations than this, and the two are not the same script.
constexpr std::size_t kMostApart = 4000;

/// What an allocation is known by: its size, and for how many allocations it lived (kNever: to the end).
struct Lives {
  std::vector<Bytes> sizes;
  std::vector<std::size_t> spans;
};

Lives lives_of(const MeasuredRun& run) {
  Lives lives;
  const auto& list = run.allocations;
  for (std::size_t i = 0; i < list.size(); ++i) {
    lives.sizes.push_back(list[i].requested);
    const auto made =
        std::partition_point(list.begin(), list.end(), [&](const Allocation& a) { return a.born == kNever || a.born < list[i].freed; });
    lives.spans.push_back(list[i].freed == kNever ? kNever : static_cast<std::size_t>(made - list.begin()) - i);
  }
  return lives;
}

Lives lives_of(const Program& program, const PredictedRun& run, int steps) {
  Lives lives;
  const std::size_t count = run.step_ends[static_cast<std::size_t>(steps)];
  for (std::size_t i = 0; i < count; ++i) {
    const PredictedAllocation& a = run.allocations[i];
    lives.sizes.push_back(program.storages[a.storage].bytes);
    lives.spans.push_back(a.freed == kNever || a.freed_step > steps ? kNever : a.freed - i);
  }
  return lives;
}

/// Those that have the same life are matched first, and what lies between them by size.
std::optional<Alignment> align_by_life(const Lives& a, const Lives& b, std::size_t most) {
  std::map<std::pair<Bytes, std::size_t>, Bytes> numbers;
  const auto keys = [&](const Lives& lives) {
    std::vector<Bytes> out;
    for (std::size_t i = 0; i < lives.sizes.size(); ++i)
      out.push_back(numbers.try_emplace({lives.sizes[i], lives.spans[i]}, numbers.size()).first->second);
    return out;
  };
  const std::vector<Bytes> keys_a = keys(a);
  const std::vector<Bytes> keys_b = keys(b);
  auto anchors = align(keys_a, keys_b, kMostApart);
  if (!anchors) return std::nullopt;
  Alignment whole;
  std::size_t from_a = 0;
  std::size_t from_b = 0;
  anchors->pairs.emplace_back(a.sizes.size(), b.sizes.size());
  for (const auto& [to_a, to_b] : anchors->pairs) {
    const auto piece = [](const std::vector<Bytes>& list, std::size_t from, std::size_t to) {
      return std::vector<Bytes>(list.begin() + static_cast<std::ptrdiff_t>(from), list.begin() + static_cast<std::ptrdiff_t>(to));
    };
    const auto between = align(piece(a.sizes, from_a, to_a), piece(b.sizes, from_b, to_b), most);
    if (!between) return std::nullopt;
    for (const auto& [x, y] : between->pairs) whole.pairs.emplace_back(from_a + x, from_b + y);
    whole.distance += between->distance;
    if (to_a < a.sizes.size() && to_b < b.sizes.size()) whole.pairs.emplace_back(to_a, to_b);
    from_a = to_a + 1;
    from_b = to_b + 1;
  }
  if (whole.distance > most) return std::nullopt;
  return whole;
}

/// Sizes alone do not tell an optimizer's state from the temporaries beside it; lives do, where they cost no match.
std::optional<Alignment> align_lives(const Lives& a, const Lives& b, std::size_t most) {
  auto by_size = align(a.sizes, b.sizes, most);
  if (!by_size || by_size->distance == 0) return by_size;
  auto by_life = align_by_life(a, b, by_size->distance);
  return by_life ? by_life : by_size;
}

struct Overlay {
  int steps = 0;
  Alignment alignment;
};

/// The number of steps with which least stands alone.
std::optional<Overlay> lay_over(const Lives& measured, const Program& program, const PredictedRun& predicted, int fewest) {
  std::optional<Overlay> best;
  for (int steps = fewest; steps < static_cast<int>(predicted.step_ends.size()); ++steps) {
    const std::size_t most = best ? best->alignment.distance : kMostApart;
    auto alignment = align_lives(measured, lives_of(program, predicted, steps), most);
    if (alignment && (!best || alignment->distance < best->alignment.distance)) best = Overlay{steps, std::move(*alignment)};
  }
  // Of two different scripts even unlike ones have sizes in common; half must be.
  if (best && best->alignment.pairs.size() * 2 < measured.sizes.size()) return std::nullopt;
  return best;
}

/// The prediction walks along: with a measured allocation that has a counterpart it is where that is made, with a free of one it
/// goes one event on, never past the next counterpart.
std::vector<Counters> beside(const MeasuredRun& run, const Program& program, const Config& config, int steps,
                             const std::vector<std::pair<std::size_t, std::size_t>>& pairs) {
  const PredictedPoints predicted = predict_points(program, config, steps);
  // By measured event: the pair that is made there (from 1), or that one of a pair is freed there.
  constexpr std::size_t kFree = kNever;
  std::vector<std::size_t> what(run.points.size(), 0);
  std::size_t next = 0;
  for (std::size_t k = 0; k < pairs.size(); ++k) {
    const Allocation& a = run.allocations[pairs[k].first];
    if (a.born != kNever) what[a.born] = k + 1;
    if (a.born == kNever) next = k + 1;  // there before the recording began
    if (a.freed != kNever) what[a.freed] = kFree;
  }
  std::vector<Counters> out;
  out.reserve(run.points.size());
  std::size_t at = next == 0 ? kNever : predicted.made_at[pairs[next - 1].second];
  for (const std::size_t here : what) {
    if (here == kFree && at != kNever) {
      const std::size_t end = next < pairs.size() ? predicted.made_at[pairs[next].second] : predicted.points.size();
      at = std::min(at + 1, std::max(end, at + 1) - 1);
    } else if (here != 0 && here != kFree) {
      at = predicted.made_at[pairs[here - 1].second];
      next = here;
    }
    out.push_back(at == kNever ? Counters{} : predicted.points[at]);
  }
  return out;
}

}  // namespace

std::optional<Comparison> compare(const Snapshot& snapshot, const MeasuredRun& run, std::size_t device, const Config& config) {
  if (run.allocations.empty() || run.peak == kNever) return std::nullopt;
  Config roomy = config;
  roomy.device.total_mib = roomy.device.free_mib = limits::memory_mib;
  const Program program = record(roomy);
  const Lives measured = lives_of(run);

  // A step's allocations are alike from the second on; so many of them are in the recording, or fewer if it has more than the steps.
  const PredictedRun two = predict(program, roomy, 2);
  const std::size_t setup = two.step_ends.front();
  const std::size_t per_step = std::max<std::size_t>(two.step_ends.back() - two.step_ends[two.step_ends.size() - 2], 1);
  const int guess =
      static_cast<int>(std::min<std::size_t>(measured.sizes.size() > setup ? (measured.sizes.size() - setup) / per_step + 1 : 1, 4096));
  const PredictedRun predicted = predict(program, roomy, guess);
  const std::optional<Overlay> overlay = lay_over(measured, program, predicted, std::max(1, guess > 16 ? guess - 8 : guess / 3));
  if (!overlay) return std::nullopt;

  Comparison found =
      find_causes({snapshot, snapshot.traces[device], run, program, roomy, config, predicted, overlay->alignment.pairs, overlay->steps});
  found.beside = beside(run, program, roomy, overlay->steps, overlay->alignment.pairs);
  return found;
}

bool differs(const Comparison& comparison, std::int64_t tolerance) {
  return std::any_of(comparison.causes.begin(), comparison.causes.end(), [&](const Cause& cause) {
    return cause.kind != Cause::Kind::rounding && cause.kind != Cause::Kind::other_process &&
           std::max(std::abs(cause.at_peak), std::abs(cause.at_end)) > tolerance;
  });
}

}  // namespace whatfits::snapshot
