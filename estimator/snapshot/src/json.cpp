#include "whatfits/compare.h"

#include <string>

#include "analysis/put.h"
#include "whatfits/moment.h"

namespace whatfits::snapshot {

namespace {

const char* name_of(Cause::Kind kind) {
  constexpr const char* kNames[] = {"kept",  "freed_early", "forward_pass", "optimizer_copy", "model_copy",
                                    "extra", "missing",     "rounding",     "other_process"};
  return kNames[static_cast<int>(kind)];
}

Json stack_json(const Snapshot& snapshot, StackId stack) {
  Json frames = Json::array();
  for (const StackFrame& frame : snapshot.stacks[stack]) {
    Json item = Json::object();
    put(item, "name", snapshot.text(frame.function));
    put(item, "filename", snapshot.text(frame.file));
    put(item, "line", frame.line);
    frames.push_back(std::move(item));
  }
  return frames;
}

Json counters(const Counters& c) {
  Json out = Json::object();
  put(out, "allocated", c.allocated);
  put(out, "reserved", c.reserved);
  return out;
}

}  // namespace

Json to_json(const Failure& failure) {
  Json out = Json::object();
  put(out, "event", static_cast<std::uint64_t>(failure.event));
  put(out, "tensor", failure.asked);
  put(out, "requested", failure.segment);
  put(out, "free", failure.device_free);
  put(out, "allocated", failure.counters.allocated);
  put(out, "reserved", failure.counters.reserved);
  put(out, "pool", failure.small_pool ? "small" : "large");
  Json pieces = Json::array();
  for (const Bytes piece : failure.pieces) pieces.push_back(piece);
  put(out, "pieces", std::move(pieces));
  put(out, "bound_by", failure.bound_by);
  put(out, "message", explain(failure));
  return out;
}

Json to_json(const Comparison& comparison, const Snapshot& snapshot) {
  Json out = Json::object();
  put(out, "steps", comparison.steps);
  put(out, "measured_allocations", static_cast<std::uint64_t>(comparison.measured_allocations));
  put(out, "predicted_allocations", static_cast<std::uint64_t>(comparison.predicted_allocations));
  put(out, "matched", static_cast<std::uint64_t>(comparison.matched));
  put(out, "measured_peak", counters(comparison.measured_peak));
  put(out, "predicted_peak", counters(comparison.predicted_peak));
  put(out, "difference", comparison.difference);
  put(out, "unexplained", comparison.unexplained);
  put(out, "freed_at_another_moment", static_cast<std::uint64_t>(comparison.order));
  Json causes = Json::array();
  for (const Cause& cause : comparison.causes) {
    Json item = Json::object();
    put(item, "kind", name_of(cause.kind));
    put(item, "title", cause.title);
    put(item, "advice", cause.advice);
    put(item, "tensors", cause.tensors);
    put(item, "times", cause.times);
    put(item, "at_peak", cause.at_peak);
    put(item, "at_end", cause.at_end);
    put(item, "place", cause.stack == kNoStack ? std::string() : place_of(snapshot, cause.stack));
    put(item, "stack", stack_json(snapshot, cause.stack));
    causes.push_back(std::move(item));
  }
  put(out, "causes", std::move(causes));
  return out;
}

}  // namespace whatfits::snapshot
