#include "causes.h"

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

namespace whatfits::snapshot {

namespace {

constexpr std::size_t kAlone = ~std::size_t{0};
/// What the device has less than the request says it should, before somebody else is suspected: room for another driver's context.
constexpr Bytes kSuspicious = 64 * MiB;

std::int64_t signed_of(Bytes bytes) { return static_cast<std::int64_t>(bytes); }

/// How many of each size.
using Sizes = std::map<Bytes, std::int64_t>;

/// Share of two collections of sizes that is in both, in percent of the larger. Order does not count: where an insertion begins
/// is a matter of taste when what surrounds it is alike.
std::int64_t likeness(const Sizes& a, std::int64_t count_a, const Sizes& b, std::int64_t count_b) {
  std::int64_t both = 0;
  for (const auto& [size, count] : a) {
    if (const auto at = b.find(size); at != b.end()) both += std::min(count, at->second);
  }
  return count_a == 0 || count_b == 0 ? 0 : both * 100 / std::max(count_a, count_b);
}

class Finder {
 public:
  explicit Finder(const LaidOver& both) : x_(both) {}

  Comparison find() {
    set_scene();
    lives();
    lone_measured();
    lone_predicted();
    somebody_else();
    if (rounding_ != 0) {
      Cause cause;
      cause.kind = Cause::Kind::rounding;
      cause.title = "the same tensors in blocks of other sizes, since the pool was in other pieces";
      cause.at_peak = rounding_;
      out_.causes.push_back(std::move(cause));
    }
    tell_graphs();
    for (auto& [key, cause] : kept_) out_.causes.push_back(std::move(cause));
    for (auto& [key, cause] : extra_) out_.causes.push_back(std::move(cause));
    std::int64_t explained = 0;
    for (const Cause& cause : out_.causes) explained += cause.kind == Cause::Kind::other_process ? 0 : cause.at_peak;
    out_.unexplained = out_.difference - explained;
    const auto weight = [](const Cause& c) { return std::max(std::abs(c.at_peak), std::abs(c.at_end)); };
    const auto elsewhere = [](const Cause& c) { return c.kind == Cause::Kind::other_process; };
    std::stable_sort(out_.causes.begin(), out_.causes.end(),
                     [&](const Cause& a, const Cause& b) { return elsewhere(a) != elsewhere(b) ? elsewhere(b) : weight(a) > weight(b); });
    return std::move(out_);
  }

 private:
  const Allocation& measured(std::size_t i) const { return x_.measured.allocations[i]; }
  const PredictedAllocation& predicted(std::size_t i) const { return x_.predicted.allocations[i]; }
  const StorageInfo& storage(std::size_t i) const { return x_.program.storages[predicted(i).storage]; }
  std::size_t predicted_count() const { return x_.predicted.step_ends[static_cast<std::size_t>(x_.steps)]; }

  void set_scene() {
    out_.steps = x_.steps;
    out_.measured_allocations = x_.measured.allocations.size();
    out_.predicted_allocations = predicted_count();
    out_.matched = x_.pairs.size();
    partner_of_measured_.assign(x_.measured.allocations.size(), kAlone);
    partner_of_predicted_.assign(x_.predicted.allocations.size(), kAlone);
    for (const auto& [m, p] : x_.pairs) {
      partner_of_measured_[m] = p;
      partner_of_predicted_[p] = m;
    }
    // How many pairs were born before each allocation: a clock that both runs share.
    for (std::size_t m = 0, pairs = 0; m <= partner_of_measured_.size(); ++m) {
      pairs_before_measured_.push_back(pairs);
      if (m < partner_of_measured_.size() && partner_of_measured_[m] != kAlone) ++pairs;
    }
    for (std::size_t p = 0, pairs = 0; p <= partner_of_predicted_.size(); ++p) {
      pairs_before_predicted_.push_back(pairs);
      if (p < partner_of_predicted_.size() && partner_of_predicted_[p] != kAlone) ++pairs;
    }
    const MeasuredPoint& top = x_.measured.points[x_.measured.peak];
    out_.measured_peak = {top.allocated, 0};
    for (const MeasuredPoint& point : x_.measured.points)
      out_.measured_peak.reserved = std::max(out_.measured_peak.reserved, point.reserved);
    out_.predicted_peak = x_.predicted.peak;
    // Where the prediction is when the measured run is at its peak: right after the counterpart of the latest that has one.
    std::size_t there = kAlone;
    for (const auto& [m, p] : x_.pairs) {
      if (measured(m).born == kNever || measured(m).born <= x_.measured.peak) there = p;
    }
    peak_at_ = there == kAlone ? 0 : there + 1;
    if (there != kAlone) {
      // If what the script does next has no counterpart, all frees up to it have happened.
      const std::size_t partner = partner_of_predicted_[there];
      after_frees_ = made_before(x_.measured.peak + 1) > partner + 1 || x_.trace[x_.measured.peak].action != Action::alloc;
      out_.difference = signed_of(top.allocated) - signed_of(after_frees_ ? predicted(there).allocated_later : predicted(there).allocated);
    } else {
      out_.difference = signed_of(top.allocated);
    }
  }

  bool alive_at_peak(const Allocation& a) const {
    return (a.born == kNever || a.born <= x_.measured.peak) && (a.freed == kNever || a.freed > x_.measured.peak);
  }
  bool predicted_at_peak(std::size_t p) const {
    return p < peak_at_ && (predicted(p).freed == kNever || predicted(p).freed >= peak_at_ + (after_frees_ ? 1 : 0));
  }
  bool predicted_at_end(std::size_t p) const { return predicted(p).freed == kNever || predicted(p).freed_step > x_.steps; }
  /// Allocations that had been made when event `at` happened.
  std::size_t made_before(std::size_t at) const {
    const auto& list = x_.measured.allocations;
    return static_cast<std::size_t>(
        std::partition_point(list.begin(), list.end(), [&](const Allocation& a) { return a.born == kNever || a.born < at; }) -
        list.begin());
  }

  /// Pairs: who lives longer, who shorter.
  void lives() {
    for (const auto& [m, p] : x_.pairs) {
      const Allocation& mine = measured(m);
      const bool here = alive_at_peak(mine);
      const bool there = predicted_at_peak(p);
      const bool stays = mine.freed == kNever;
      const bool should_stay = predicted_at_end(p);
      if (mine.freed != kNever && predicted(p).freed != kNever && predicted(p).freed <= predicted_count() &&
          pairs_before_measured_[made_before(mine.freed)] != pairs_before_predicted_[predicted(p).freed])
        ++out_.order;
      if (here && there) rounding_ += signed_of(mine.block) - signed_of(predicted(p).block);
      if (here == there && stays == should_stay) continue;
      const StorageInfo& info = storage(p);
      const bool longer = (here && !there) || (stays && !should_stay);
      // Gradients that stay make the next step's short-lived: one story, told once.
      const bool gradient = info.category == Category::gradients;
      const Cause::Kind kind = longer || gradient ? Cause::Kind::kept : Cause::Kind::freed_early;
      const std::string label = gradient ? "" : x_.program.labels[info.label];
      Cause& cause = kept_[{kind, info.category, label}];
      if (cause.tensors == 0) {
        cause.kind = kind;
        cause.stack = mine.stack;
        describe(cause, info.category, label.empty() ? std::string(name_of(info.op)) : label);
      }
      if (longer) ++cause.tensors;
      if (here != there) cause.at_peak += here ? signed_of(mine.block) : -signed_of(predicted(p).block);
      if (stays != should_stay) cause.at_end += stays ? signed_of(mine.block) : -signed_of(predicted(p).block);
    }
  }

  /// What backward needs, kept all at once, is one story: the graph itself.
  void tell_graphs() {
    const auto is_saved = [](const auto& key) {
      const Category category = std::get<1>(key);
      return std::get<0>(key) == Cause::Kind::kept &&
             (category == Category::activations || category == Category::attention || category == Category::logits);
    };
    constexpr int kKindsOfAGraph = 5;
    int kinds = 0;
    for (const auto& [key, cause] : kept_) kinds += is_saved(key) ? 1 : 0;
    if (kinds < kKindsOfAGraph) return;
    Cause graph;
    graph.kind = Cause::Kind::kept;
    graph.title = "the graph of a step, with all that its backward saved, stays alive";
    graph.advice = "a loss that is kept with retain_graph=True, or never goes backward, holds it: keep .item() instead";
    for (auto at = kept_.begin(); at != kept_.end();) {
      if (!is_saved(at->first)) {
        ++at;
        continue;
      }
      graph.tensors += at->second.tensors;
      graph.at_peak += at->second.at_peak;
      graph.at_end += at->second.at_end;
      if (graph.stack == kNoStack) graph.stack = at->second.stack;
      at = kept_.erase(at);
    }
    out_.causes.push_back(std::move(graph));
  }

  static void describe(Cause& cause, Category category, const std::string& label) {
    if (cause.kind == Cause::Kind::freed_early) {
      cause.title = label + ": freed earlier than predicted";
      return;
    }
    switch (category) {
      case Category::gradients:
        cause.title = "gradients stay allocated between steps";
        cause.advice = "optimizer.zero_grad(set_to_none=True) after each step";
        break;
      case Category::logits:
        cause.title = label + ": alive after their step (they, or a view of them)";
        cause.advice = "keep numbers, not tensors: .item(), or .detach().cpu() of what is needed; del the rest";
        break;
      case Category::activations:
      case Category::attention:
        cause.title = label + ": alive after its backward pass";
        cause.advice = "something holds the graph or an activation: a loss kept in a list, retain_graph=True, a hook; detach it";
        break;
      case Category::inputs:
        cause.title = "batches stay on the card after their step";
        cause.advice = "let the batch's name go before the next is loaded";
        break;
      default:
        cause.title = label + ": lives longer than predicted";
        cause.advice = "see where it was made, and who still holds it";
    }
  }

  /// Runs of allocations that only the measured run has.
  void lone_measured() {
    const std::size_t end = scaled_step();
    std::size_t m = 0;
    while (m < end) {
      if (partner_of_measured_[m] != kAlone) {
        ++m;
        continue;
      }
      const std::size_t first = m;
      while (m < end && partner_of_measured_[m] == kAlone) ++m;
      lone_run(first, m);
    }
  }

  /// The recording's last step may be one of another batch: each of its sizes is the predicted one, or that times one factor.
  /// Gives the first allocation of such a step.
  std::size_t scaled_step() {
    const std::size_t count = partner_of_measured_.size();
    std::size_t last_pair = 0;  // of the unbroken part
    while (last_pair < count && partner_of_measured_[last_pair] != kAlone) ++last_pair;
    const auto& ends = x_.predicted.step_ends;
    for (std::size_t step = 0; step + 1 < ends.size() && ends[step] <= last_pair; ++step) {
      const std::size_t begin = ends[step];  // before it both are alike, so the indices are the same
      const std::size_t length = std::min(count, begin + ends[step + 1] - ends[step]) - std::min(count, begin);
      constexpr std::size_t kEnough = 10;
      if (length < kEnough || begin + length < count) continue;
      const Bytes from = storage(begin).bytes;
      const Bytes to = measured(begin).requested;
      if (from == 0 || to == from || to % from != 0) continue;
      const Bytes factor = to / from;
      std::size_t fits = 0;
      for (std::size_t i = begin; i < begin + length; ++i)
        fits += measured(i).requested == storage(i).bytes || measured(i).requested == storage(i).bytes * factor ? 1 : 0;
      if (fits * 10 < length * 9) continue;
      Cause& cause = add(begin, count, Cause::Kind::extra, "batch");
      cause.times = 1;
      cause.title = "a step whose batch is " + std::to_string(factor) + " times the request's";
      cause.advice = "give the batch that ran: --batch " + std::to_string(static_cast<Bytes>(x_.requested.batch) * factor);
      return begin;
    }
    return count;
  }

  void lone_run(std::size_t first, std::size_t last) {
    Sizes sizes;
    for (std::size_t i = first; i < last; ++i) ++sizes[measured(i).requested];
    const auto count = static_cast<std::int64_t>(last - first);
    const auto like = [&](const auto& belongs) {
      Sizes other;
      std::int64_t others = 0;
      for (std::size_t p = 0; p < predicted_count(); ++p) {
        if (!belongs(p)) continue;
        ++other[storage(p).bytes];
        ++others;
      }
      return likeness(sizes, count, other, others);
    };
    constexpr std::int64_t kAlike = 80;
    if (like([&](std::size_t p) { return storage(p).phase == Phase::forward && predicted(p).step == 1; }) >= kAlike) {
      Cause& cause = add(first, last, Cause::Kind::forward_pass, "");
      const bool stays = cause.at_end > 0 || cause.at_peak > 0;
      cause.title = stays ? "a forward pass outside of the step, whose graph stays" : "a forward pass outside of the step";
      cause.advice = "evaluate under torch.no_grad(), and keep .item() of its loss";
    } else if (like([&](std::size_t p) { return storage(p).category == Category::optimizer_state; }) >= kAlike) {
      Cause& cause = add(first, last, Cause::Kind::optimizer_copy, "");
      cause.title = "the state of a second optimizer over the same parameters";
      cause.advice = "one optimizer is enough; load its state into it instead of making another";
    } else if (like([&](std::size_t p) { return storage(p).category == Category::parameters; }) >= kAlike) {
      Cause& cause = add(first, last, Cause::Kind::model_copy, "");
      cause.title = "a second copy of the model's parameters";
      cause.advice = "keep averages and references on the CPU, or load a state_dict with map_location=\"cpu\"";
    } else {
      for (std::size_t i = first; i < last; ++i) {
        const StackFrame* const frame = x_.snapshot.user_frame(measured(i).stack);
        const std::string place = frame != nullptr ? x_.snapshot.place(*frame) : "";
        Cause& cause = add(i, i + 1, Cause::Kind::extra, place);
        cause.title = "tensors that the request's script does not make" + (place.empty() ? std::string() : ", from " + place);
        cause.advice = "if the script needs them, the request does not describe it; if not, let them go";
      }
    }
  }

  Cause& add(std::size_t first, std::size_t last, Cause::Kind kind, const std::string& place) {
    Cause& cause = extra_[{kind, place}];
    if (cause.tensors == 0) {
      cause.kind = kind;
      cause.stack = measured(first).stack;
    }
    ++cause.times;
    for (std::size_t i = first; i < last; ++i) {
      ++cause.tensors;
      if (alive_at_peak(measured(i))) cause.at_peak += signed_of(measured(i).block);
      if (measured(i).freed == kNever) cause.at_end += signed_of(measured(i).block);
    }
    return cause;
  }

  void lone_predicted() {
    Cause cause;
    cause.kind = Cause::Kind::missing;
    for (std::size_t p = 0; p < predicted_count(); ++p) {
      if (partner_of_predicted_[p] != kAlone) continue;
      ++cause.tensors;
      const Bytes block = predicted(p).block;
      if (predicted_at_peak(p)) cause.at_peak -= signed_of(block);
      if (predicted_at_end(p)) cause.at_end -= signed_of(block);
    }
    if (cause.tensors == 0) return;
    const bool failed = !x_.measured.failures.empty();
    cause.title = failed ? "tensors that the run did not come to before memory ran out" : "tensors that only the prediction has";
    cause.advice = failed ? "" : "the request does not describe the script: look at batch, length, precision, attention and optimizer";
    out_.causes.push_back(std::move(cause));
  }

  /// When memory ran out the device said how much it still had: what is neither there nor ours is somebody else's.
  void somebody_else() {
    for (const Failure& failure : x_.measured.failures) {
      const Bytes should = static_cast<Bytes>(x_.requested.device.free_mib) * MiB;
      const Bytes is = failure.counters.reserved + failure.device_free;
      if (is + kSuspicious >= should) continue;
      Cause cause;
      cause.kind = Cause::Kind::other_process;
      cause.title = "something else holds memory of the card, or it is smaller than " + x_.requested.device.name;
      cause.advice = "nvidia-smi lists the processes; give the card's own size with --device";
      cause.at_peak = signed_of(should - is);
      out_.causes.push_back(std::move(cause));
      return;
    }
  }

  const LaidOver& x_;
  Comparison out_;
  std::vector<std::size_t> partner_of_measured_;
  std::vector<std::size_t> partner_of_predicted_;
  std::vector<std::size_t> pairs_before_measured_;
  std::vector<std::size_t> pairs_before_predicted_;
  bool after_frees_ = false;
  std::size_t peak_at_ = 0;  ///< predicted allocations made when the measured run is at its peak
  std::int64_t rounding_ = 0;
  std::map<std::tuple<Cause::Kind, Category, std::string>, Cause> kept_;
  std::map<std::tuple<Cause::Kind, std::string>, Cause> extra_;
};

}  // namespace

Comparison find_causes(const LaidOver& both) { return Finder(both).find(); }

}  // namespace whatfits::snapshot
