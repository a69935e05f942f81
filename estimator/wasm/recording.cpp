#include "recording.h"

#include <algorithm>
#include <utility>

#include "analysis/put.h"
#include "whatfits/moment.h"
#include "whatfits/request.h"

namespace whatfits::wasm {

namespace {

/// Told at once, and kept beside their counters: a second's work, and what a page can hold.
constexpr std::size_t kMostEvents = 1'000'000;

Answer problem(const char* key, const std::string& message) {
  Json item;
  put(item, "key", key);
  put(item, "value", "");
  put(item, "message", message);
  put(item, "kind", "statement");
  put(item, "line", std::string(key) + ": " + message);
  Json out;
  put(out, "problems", Json::array()).push_back(std::move(item));
  return {false, write(out)};
}

}  // namespace

Answer Recording::finish() {
  if (!reader_) return problem("file", "is read already");
  snapshot_ = reader_->finish();
  if (!snapshot_) {
    const snapshot::ReadError& error = *reader_->error();
    return problem("file", "byte " + std::to_string(error.offset) + ": " + error.message);
  }
  reader_.reset();
  const auto& traces = snapshot_->traces;
  const auto found = std::find_if(traces.begin(), traces.end(), [](const auto& trace) { return !trace.empty(); });
  if (found == traces.end()) {
    snapshot_.reset();
    return problem("file", "has no events: call torch.cuda.memory._record_memory_history() before the run that is to be seen");
  }
  device_ = static_cast<std::size_t>(found - traces.begin());
  if (found->size() > kMostEvents) {
    const std::string message = "has " + std::to_string(found->size()) + " events, and at most " + std::to_string(kMostEvents) +
                                " are shown: read it from event " + std::to_string(snapshot_->events_seen[device_] - kMostEvents) + " on";
    snapshot_.reset();
    return problem("file", message);
  }
  run_ = follow(*snapshot_, device_, &pools_);

  const std::size_t peak = run_.peak == snapshot::kNever ? run_.points.size() - 1 : run_.peak;
  const auto counters = [](const snapshot::MeasuredPoint& point) {
    Json out;
    put(out, "allocated", point.allocated);
    put(out, "reserved", point.reserved);
    return out;
  };
  Json out;
  put(out, "device", static_cast<std::uint64_t>(device_));
  put(out, "events", static_cast<std::uint64_t>(run_.points.size()));
  put(out, "events_in_file", snapshot_->events_seen[device_]);
  put(out, "allocations", static_cast<std::uint64_t>(run_.allocations.size()));
  put(put(out, "peak", counters(run_.points[peak])), "event", static_cast<std::uint64_t>(peak));
  put(out, "end", counters(run_.points.back()));
  Json retries = Json::array();
  for (const std::size_t event : run_.retries) retries.push_back(static_cast<std::uint64_t>(event));
  put(out, "retries", std::move(retries));
  Json failures = Json::array();
  for (const snapshot::Failure& failure : run_.failures) {
    Json item = to_json(failure);
    put(item, "place", place_of(*snapshot_, traces[device_][failure.event].stack));
    failures.push_back(std::move(item));
  }
  put(out, "failures", std::move(failures));
  put(out, "strange", static_cast<std::uint64_t>(run_.strange));
  return {true, write(out)};
}

std::string Recording::at(std::size_t event) const {
  event = std::min(event, run_.points.size() - 1);
  Json out = moment_json(*snapshot_, run_, device_, event, pools_.at(snapshot_->traces[device_], event));
  for (const char* key : {"events", "events_in_file", "allocations", "at_end", "retries", "failures"}) out.erase(key);
  return write(out);
}

const Arrays& Recording::columns(std::size_t begin, std::size_t end, std::size_t width) {
  end = std::min(end, run_.points.size());
  if (begin >= end) width = 0;
  columns_.count = width;
  constexpr std::size_t kSeries = 4;
  std::vector<Bytes> series[kSeries];
  std::vector<std::uint32_t> events;
  for (std::uint64_t x = 0; x < width; ++x) {
    const std::uint64_t rows = end - begin;
    const std::size_t from = begin + static_cast<std::size_t>(x * rows / width);
    const std::size_t to = std::max(from + 1, begin + static_cast<std::size_t>((x + 1) * rows / width));
    std::size_t highest = from;
    Bytes most[kSeries]{};
    for (std::size_t i = from; i < to; ++i) {
      const snapshot::MeasuredPoint& point = run_.points[i];
      if (point.allocated > run_.points[highest].allocated) highest = i;
      const Counters beside = i < beside_.size() ? beside_[i] : Counters{};
      const Bytes here[kSeries] = {point.allocated, point.reserved, beside.allocated, beside.reserved};
      for (std::size_t s = 0; s < kSeries; ++s) most[s] = std::max(most[s], here[s]);
    }
    for (std::size_t s = 0; s < kSeries; ++s) series[s].push_back(most[s]);
    events.push_back(static_cast<std::uint32_t>(highest));
  }
  ArrayWriter out(columns_, width * (8 * kSeries + 4));
  for (const auto& one : series) {
    for (const Bytes bytes : one) out.number(bytes);
  }
  for (const std::uint32_t event : events) out.add(event);
  return columns_;
}

Answer Recording::compare(std::string_view request) {
  beside_.clear();
  Config config;
  Answer answer;
  if (!read_request(request, config, answer)) return answer;
  if (config.engine != Engine::torch) return problem("engine", "must be torch: a formula makes no tensors to compare");
  auto comparison = snapshot::compare(*snapshot_, run_, device_, config);
  if (!comparison) {
    return problem("snapshot",
                   "has too little in common with this run to be laid over it: check model, batch, length, precision, attention and "
                   "optimizer, and that the recording began before the model was made");
  }
  Json out = to_json(*comparison, *snapshot_);
  put(out, "request", request_json(config));
  put(out, "verdict", differs(*comparison, snapshot::kTolerance) || !run_.failures.empty() ? "differs" : "as predicted");
  beside_ = std::move(comparison->beside);
  return {true, write(out)};
}

}  // namespace whatfits::wasm
