#include "whatfits/json.h"

#include "whatfits/request.h"

namespace whatfits {

namespace {

Json pair(const Counters& c) { return {{"allocated", c.allocated}, {"reserved", c.reserved}}; }
Json pair(const std::optional<Counters>& c) { return c ? pair(*c) : Json(nullptr); }

Json layer(std::int16_t index) { return index == kNoLayer ? Json(nullptr) : Json(index); }

Json moment(const Moment& at) {
  return {{"step", at.step},
          {"phase", name_of(at.phase)},
          {"layer", layer(at.layer)},
          {"op", name_of(at.op)},
          {"event", at.event},
          {"requested", at.requested}};
}

Json rows(const std::vector<LedgerRow>& list) {
  Json out = Json::array();
  for (const LedgerRow& row : list) {
    out.push_back({{"category", name_of(row.category)},
                   {"label", row.label},
                   {"layer", layer(row.layer)},
                   {"op", name_of(row.op)},
                   {"shape", row.shape},
                   {"dtype", name_of(row.dtype)},
                   {"count", row.count},
                   {"bytes", row.bytes},
                   {"formula", row.formula}});
  }
  return out;
}

Json categories(const std::array<Bytes, kCategories>& bytes) {
  Json out = Json::object();
  for (int i = 0; i < kCategories; ++i) out[std::string(name_of(static_cast<Category>(i)))] = bytes[static_cast<std::size_t>(i)];
  return out;
}

Json step(const StepCounters& s) {
  Json out = Json::object();
  const auto put = [&](const char* key, const std::optional<Counters>& c) {
    if (c) out[key] = pair(*c);
  };
  put("before", s.before);
  put("after_forward", s.after_forward);
  put("after_backward", s.after_backward);
  put("after_optimizer_step", s.after_optimizer_step);
  put("after_zero_grad", s.after_zero_grad);
  put("peak", s.peak);
  return out;
}

Json lines(const std::vector<ClosedLine>& list) {
  Json out = Json::array();
  for (const ClosedLine& line : list)
    out.push_back({{"label", line.label}, {"category", line.category}, {"formula", line.formula}, {"bytes", line.bytes}});
  return out;
}

}  // namespace

Json to_json(const OutOfMemory& oom) {
  Json out = moment(oom.at);
  out["requested"] = oom.segment;
  out["tensor"] = oom.tensor;
  out["allocated"] = oom.counters.allocated;
  out["reserved"] = oom.counters.reserved;
  out["free"] = oom.free;
  out["cached_free"] = oom.cached_free;
  out["largest_piece"] = oom.largest_piece;
  out["peak"] = pair(oom.peak);
  out["message"] = oom.message;
  return out;
}

Json to_json(const Report& report) {
  const Trace& trace = report.trace;
  Json out;
  out["schema_version"] = 1;
  out["request"] = request_json(report.request);
  out["verdict"] = trace.fits() ? "fits" : "oom";
  out["parameters"] = report.parameters;
  out["program_hash"] = report.program_hash;
  out["trace_hash"] = report.trace_hash;
  out["after_warmup"] = pair(trace.after_warmup);
  out["after_model"] = pair(trace.after_model);
  out["after_optimizer"] = pair(trace.after_optimizer);
  out["steps"] = Json::array();
  for (const StepCounters& s : trace.steps) out["steps"].push_back(step(s));
  out["peak"] = pair(trace.peak);
  out["peak"]["device"] = report.device_peak;
  out["peak"]["at"] = moment(trace.peak_at);
  out["steady_peak"] = trace.fits() && !trace.steps.empty() ? pair(trace.steps.back().peak) : Json(nullptr);
  out["oom"] = trace.oom ? to_json(*trace.oom) : Json(nullptr);
  out["alloc_retries"] = trace.retries;
  out["settled"] = trace.settled ? Json{{"step", trace.settled->step}, {"period", trace.settled->period}} : Json(nullptr);
  out["ledger"] = rows(report.ledger.rows);
  out["categories"] = categories(report.ledger.categories);
  out["accuracy"] = {{"basis", report.by_formula ? "formula" : "replay"}, {"measured_rows_near", 0}, {"error_band", nullptr}};
  out["assumptions"] = report.assumptions;
  return out;
}

Json to_json(const Fit& fit) {
  Json out = fit.report ? to_json(*fit.report) : Json::object();
  out["axis"] = fit.axis == Axis::batch ? "batch" : "seq-len";
  out[fit.axis == Axis::batch ? "largest_batch" : "largest_seq_len"] = fit.largest;
  out["capped"] = fit.capped;
  out["first_failure_at"] = fit.first_failure_at != 0 ? Json(fit.first_failure_at) : Json(nullptr);
  out["first_failure"] = fit.first_failure ? to_json(*fit.first_failure) : Json(nullptr);
  out["bound_by"] = fit.bound_by.empty() ? Json(nullptr) : Json(fit.bound_by);
  out["replays"] = fit.replays;
  return out;
}

Json to_json(const Ledger& ledger) {
  return {{"at", moment(ledger.at)},
          {"allocated", ledger.counters.allocated},
          {"reserved", ledger.counters.reserved},
          {"categories", categories(ledger.categories)},
          {"ledger", rows(ledger.rows)}};
}

Json to_json(const std::vector<SweepCell>& cells) {
  Json out = Json::array();
  for (const SweepCell& cell : cells) {
    out.push_back({{"batch", cell.batch},
                   {"seq_len", cell.seq_len},
                   {"verdict", cell.fits ? "fits" : "oom"},
                   {"allocated", cell.peak.allocated},
                   {"reserved", cell.peak.reserved}});
  }
  return out;
}

Json to_json(const Advices& advices) {
  Json list = Json::array();
  for (const Advice& advice : advices.list) {
    list.push_back({{"key", advice.key},
                    {"value", Json::parse(advice.value, nullptr, false)},
                    {"title", advice.title},
                    {"cost", advice.cost},
                    {"saves", advice.saves},
                    {"saves_allocated", advice.saves_allocated},
                    {"fits", advice.fits},
                    {"largest_batch", advice.largest_batch}});
  }
  return {{"needs", pair(advices.needs)}, {"fits", advices.fits}, {"largest_batch", advices.largest_batch}, {"advice", std::move(list)}};
}

Json to_json(const Timeline& timeline) {
  Json events = Json::array();
  for (const TimelineRow& row : timeline.rows) {
    Json bytes = Json::array();
    for (const Bytes b : row.categories) bytes.push_back(b);
    events.push_back({{"event", row.event},
                      {"action", row.alloc ? "alloc" : "free"},
                      {"bytes", row.bytes},
                      {"phase", name_of(row.phase)},
                      {"layer", layer(row.layer)},
                      {"op", name_of(row.op)},
                      {"label", timeline.labels[row.label]},
                      {"allocated", row.counters.allocated},
                      {"reserved", row.counters.reserved},
                      {"categories", std::move(bytes)}});
  }
  Json names = Json::array();
  for (int i = 0; i < kCategories; ++i) names.push_back(name_of(static_cast<Category>(i)));
  return {{"step", timeline.step},
          {"categories", std::move(names)},
          {"events", std::move(events)},
          {"oom", timeline.oom ? to_json(*timeline.oom) : Json(nullptr)}};
}

Json to_json(const Explanation& explanation) {
  const GeneralAccount& general = explanation.general;
  const ClosedEstimate& measured = explanation.measured;
  return {{"general_account",
           {{"parameters", general.parameters},
            {"parameters_formula", general.parameters_formula},
            {"lines", lines(general.lines)},
            {"state", general.state},
            {"activations", general.activations},
            {"total", general.total},
            {"notes", general.notes}}},
          {"measured_calculator",
           {{"parameters", measured.parameters},
            {"lines", lines(measured.lines)},
            {"allocated", measured.allocated},
            {"reserved", measured.reserved},
            {"batch_by_allocated", measured.batch_by_allocated},
            {"batch_by_reserved", measured.batch_by_reserved},
            {"notes", measured.notes}}},
          {"replay", to_json(explanation.report)}};
}

}  // namespace whatfits
