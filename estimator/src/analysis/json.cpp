#include "whatfits/json.h"

#include "analysis/put.h"
#include "config/json_text.h"
#include "whatfits/near.h"
#include "whatfits/request.h"

namespace whatfits {

namespace {

Json pair(const Counters& c) {
  Json out = Json::object();
  put(out, "allocated", c.allocated);
  put(out, "reserved", c.reserved);
  return out;
}
Json pair(const std::optional<Counters>& c) { return c ? pair(*c) : Json(nullptr); }

Json layer(std::int16_t index) { return index == kNoLayer ? Json(nullptr) : Json(index); }

Json moment(const Moment& at) {
  Json out = Json::object();
  put(out, "step", at.step);
  put(out, "phase", name_of(at.phase));
  put(out, "layer", layer(at.layer));
  put(out, "op", name_of(at.op));
  put(out, "event", at.event);
  put(out, "requested", at.requested);
  return out;
}

Json rows(const std::vector<LedgerRow>& list) {
  Json out = Json::array();
  for (const LedgerRow& row : list) {
    Json item = Json::object();
    put(item, "category", name_of(row.category));
    put(item, "label", row.label);
    put(item, "layer", layer(row.layer));
    put(item, "op", name_of(row.op));
    put(item, "shape", row.shape);
    put(item, "dtype", name_of(row.dtype));
    put(item, "count", row.count);
    put(item, "bytes", row.bytes);
    put(item, "formula", row.formula);
    out.push_back(std::move(item));
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

Json time_of(const Pace& pace) {
  Json out = Json::object();
  put(out, "tokens", pace.tokens_of_all());
  put(out, "flops", pace.flops);
  put(out, "flops_recomputed", pace.flops_again);
  put(out, "flops_by_rule", pace.flops_by_rule);
  put(out, "bytes_moved", pace.bytes);
  put(out, "optimizer_bytes_moved", pace.optimizer_bytes);
  put(out, "operators", pace.operators);
  if (!pace.unknown.empty()) {
    put(out, "unknown", pace.unknown);
    return out;
  }
  const auto range = [&](const char* key, std::uint64_t low, std::uint64_t high) {
    Json& both = put(out, key, Json::array());
    both.push_back(low);
    both.push_back(high);
  };
  range("microseconds", pace.fastest_us, pace.slowest_us);
  put(out, "assumed", assumed_shares());
  range("tokens_per_second", pace.tokens_per_second(pace.slowest_us), pace.tokens_per_second(pace.fastest_us));
  return out;
}

/// One parser for all: another instance of it costs a browser several KB.
Json value_of(const std::string& text) {
  Json value;
  std::vector<Problem> problems;
  config::parse_text(text, value, problems);
  return value;
}

Json lines(const std::vector<ClosedLine>& list) {
  Json out = Json::array();
  for (const ClosedLine& line : list) {
    Json item = Json::object();
    put(item, "label", line.label);
    put(item, "category", line.category);
    put(item, "formula", line.formula);
    put(item, "bytes", line.bytes);
    out.push_back(std::move(item));
  }
  return out;
}

/// Runs on real cards, `band` the errors of their peaks in millionths of what PyTorch counted, negative where predicted too low; `of`
/// says whose: of those near, else of the family, else of all.
Json real_cards(const CardRuns& runs) {
  Json out = Json::object();
  put(out, "near", runs.near);
  put(out, "family", runs.family);
  put(out, "all", runs.all);
  Json& band = put(out, "band", Json::object());
  put(band, "of", to_string(runs.band));
  put(band, "least_ppm", runs.least_ppm);
  put(band, "most_ppm", runs.most_ppm);
  put(out, "words", in_words(runs));
  return out;
}

/// `error_band`: the worst error of a peak among the recorded runs near, percent, rounded up to hundredths; null where none is near.
Json accuracy_of(const Report& report) {
  if (report.by_formula)
    return {{"basis", report.request.engine == Engine::llm_c ? "table" : "formula"},
            {"measured_rows_near", 0},
            {"error_band", nullptr},
            {"real_cards", nullptr}};
  const Near near = near_runs(report.request);
  Json out{{"basis", "replay"}, {"measured_rows_near", near.runs}, {"error_band", nullptr}};
  // A whole 0: JavaScript writes no other, and the answers have to be the same text.
  if (near.runs > 0) out["error_band"] = 0;
  if (near.worst_ppm > 0) out["error_band"] = static_cast<double>(hundredths_of_percent(near.worst_ppm)) / 100;
  put(out, "words", in_words(near));
  put(out, "real_cards", real_cards(card_runs(report.request)));
  return out;
}

}  // namespace

Json to_json(const OutOfMemory& oom) {
  Json out = moment(oom.at);
  put(out, "requested", oom.segment);
  put(out, "tensor", oom.tensor);
  put(out, "allocated", oom.counters.allocated);
  put(out, "reserved", oom.counters.reserved);
  put(out, "free", oom.free);
  put(out, "cached_free", oom.cached_free);
  put(out, "largest_piece", oom.largest_piece);
  put(out, "peak", pair(oom.peak));
  put(out, "message", oom.message);
  return out;
}

Json to_json(const Report& report) {
  const Trace& trace = report.trace;
  Json out;
  put(out, "schema_version", 1);
  put(out, "request", request_json(report.request));
  put(out, "verdict", trace.fits() ? "fits" : "oom");
  if (const auto& parallel = report.request.parallel) {
    // What the figures are of. Ranks of DDP are alike, but for what ZeRO gives each;
    // FSDP gives the first rank whole pieces, and what is missing to the last ones.
    Json& rank = put(out, "parallel", Json::object());
    put(rank, "ranks", parallel->gpus);
    put(rank, "rank", report.rank);
    put(rank, "worst_rank", report.rank);
  }
  put(out, "parameters", report.parameters);
  put(out, "program_hash", report.program_hash);
  put(out, "trace_hash", report.trace_hash);
  put(out, "after_warmup", pair(trace.after_warmup));
  put(out, "after_model", pair(trace.after_model));
  put(out, "after_optimizer", pair(trace.after_optimizer));
  out["steps"] = Json::array();
  for (const StepCounters& s : trace.steps) out["steps"].push_back(step(s));
  put(out, "peak", pair(trace.peak));
  out["peak"]["device"] = report.device_peak;
  out["peak"]["at"] = moment(trace.peak_at);
  put(out, "steady_peak", trace.fits() && !trace.steps.empty() ? pair(trace.steps.back().peak) : Json(nullptr));
  put(out, "oom", trace.oom ? to_json(*trace.oom) : Json(nullptr));
  put(out, "alloc_retries", trace.retries);
  out["settled"] = trace.settled ? Json{{"step", trace.settled->step}, {"period", trace.settled->period}} : Json(nullptr);
  put(out, "ledger", rows(report.ledger.rows));
  put(out, "categories", categories(report.ledger.categories));
  if (report.pace) put(out, "time", time_of(*report.pace));
  out["accuracy"] = accuracy_of(report);
  put(out, "assumptions", report.assumptions);
  return out;
}

Json to_json(const Fit& fit) {
  Json out = fit.report ? to_json(*fit.report) : Json::object();
  put(out, "axis", fit.axis == Axis::batch ? "batch" : "seq-len");
  out[fit.axis == Axis::batch ? "largest_batch" : "largest_seq_len"] = fit.largest;
  put(out, "capped", fit.capped);
  put(out, "first_failure_at", fit.first_failure_at != 0 ? Json(fit.first_failure_at) : Json(nullptr));
  put(out, "first_failure", fit.first_failure ? to_json(*fit.first_failure) : Json(nullptr));
  put(out, "drifts", fit.first_failure_at != 0 && !fit.first_failure);  // the failure: not out of memory, but never the same again
  put(out, "bound_by", fit.bound_by.empty() ? Json(nullptr) : Json(fit.bound_by));
  put(out, "replays", fit.replays);
  return out;
}

Json to_json(const Ledger& ledger) {
  Json out = Json::object();
  put(out, "at", moment(ledger.at));
  put(out, "allocated", ledger.counters.allocated);
  put(out, "reserved", ledger.counters.reserved);
  put(out, "categories", categories(ledger.categories));
  put(out, "ledger", rows(ledger.rows));
  return out;
}

Json to_json(const Pool& pool) {
  Json segments = Json::array();
  for (const PoolSegment& segment : pool.segments) {
    Json blocks = Json::array();
    for (const PoolBlock& block : segment.blocks) {
      Json item;
      put(item, "address", block.address);
      put(item, "size", block.size);
      put(item, "allocated", block.allocated);
      put(item, "requested", block.requested);
      put(item, "category", name_of(block.category));
      put(item, "label", block.label);
      put(item, "layer", layer(block.layer));
      put(item, "op", name_of(block.op));
      blocks.push_back(std::move(item));
    }
    Json item;
    put(item, "address", segment.address);
    put(item, "size", segment.size);
    put(item, "small", segment.small);
    put(item, "blocks", std::move(blocks));
    segments.push_back(std::move(item));
  }
  Json out;
  put(out, "at", moment(pool.at));
  put(out, "allocated", pool.counters.allocated);
  put(out, "reserved", pool.counters.reserved);
  put(out, "oom", pool.oom ? to_json(*pool.oom) : Json(nullptr));
  put(out, "segments", std::move(segments));
  return out;
}

Json to_json(const std::vector<SweepCell>& cells) {
  Json out = Json::array();
  for (const SweepCell& cell : cells) {
    Json item = Json::object();
    put(item, "batch", cell.batch);
    put(item, "seq_len", cell.seq_len);
    put(item, "verdict", cell.fits ? "fits" : cell.drifts ? "drifts" : "oom");
    put(item, "allocated", cell.peak.allocated);
    put(item, "reserved", cell.peak.reserved);
    out.push_back(std::move(item));
  }
  return out;
}

Json to_json(const Advices& advices) {
  Json list = Json::array();
  for (const Advice& advice : advices.list) {
    Json item = Json::object();
    Json changes = Json::array();
    for (const Setting& setting : advice.changes) {
      Json change = Json::object();
      put(change, "key", setting.key);
      put(change, "value", value_of(setting.value));
      changes.push_back(std::move(change));
    }
    put(item, "changes", std::move(changes));
    put(item, "name", advice.name);
    put(item, "title", advice.title);
    put(item, "cost", advice.cost);
    put(item, "pair", advice.pair);
    put(item, "effect", to_string(advice.effect));
    put(item, "saves", advice.saves);
    put(item, "saves_allocated", advice.saves_allocated);
    put(item, "fits", advice.fits);
    put(item, "largest_batch", advice.largest_batch);
    put(item, "time_percent", advice.time_percent != 0 ? Json(advice.time_percent) : Json(nullptr));
    list.push_back(std::move(item));
  }
  Json out = Json::object();
  put(out, "needs", pair(advices.needs));
  put(out, "fits", advices.fits);
  put(out, "largest_batch", advices.largest_batch);
  put(out, "advice", std::move(list));
  return out;
}

Json to_json(const Timeline& timeline) {
  Json events = Json::array();
  for (const TimelineRow& row : timeline.rows) {
    Json bytes = Json::array();
    for (const Bytes b : row.categories) bytes.push_back(b);
    Json item = Json::object();
    put(item, "event", row.event);
    put(item, "action", row.alloc ? "alloc" : "free");
    put(item, "bytes", row.bytes);
    put(item, "phase", name_of(row.phase));
    put(item, "layer", layer(row.layer));
    put(item, "op", name_of(row.op));
    put(item, "label", timeline.labels[row.label]);
    put(item, "allocated", row.counters.allocated);
    put(item, "reserved", row.counters.reserved);
    put(item, "categories", std::move(bytes));
    events.push_back(std::move(item));
  }
  Json names = Json::array();
  for (int i = 0; i < kCategories; ++i) names.push_back(name_of(static_cast<Category>(i)));
  Json out = Json::object();
  put(out, "step", timeline.step);
  put(out, "categories", std::move(names));
  put(out, "events", std::move(events));
  put(out, "oom", timeline.oom ? to_json(*timeline.oom) : Json(nullptr));
  return out;
}

Json to_json(const Explanation& explanation) {
  const GeneralAccount& general = explanation.general;
  const ClosedEstimate& measured = explanation.measured;
  Json out = Json::object();
  Json& account = put(out, "general_account", Json::object());
  put(account, "parameters", general.parameters);
  put(account, "parameters_formula", general.parameters_formula);
  put(account, "lines", lines(general.lines));
  put(account, "state", general.state);
  put(account, "activations", general.activations);
  put(account, "total", general.total);
  put(account, "notes", general.notes);
  Json& calculator = put(out, "measured_calculator", Json::object());
  put(calculator, "parameters", measured.parameters);
  put(calculator, "lines", lines(measured.lines));
  put(calculator, "allocated", measured.allocated);
  put(calculator, "reserved", measured.reserved);
  put(calculator, "batch_by_allocated", measured.batch_by_allocated);
  put(calculator, "batch_by_reserved", measured.batch_by_reserved);
  put(calculator, "notes", measured.notes);
  put(out, "replay", to_json(explanation.report));
  return out;
}

}  // namespace whatfits
