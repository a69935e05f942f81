#include <cstdlib>

#include "measure/host.h"
#include "measure/run.h"
#include "whatfits/request.h"

#ifndef WHATFITS_VERSION
#define WHATFITS_VERSION "unknown"
#endif

namespace whatfits::native {

namespace {

Json counters_json(const Counters& c) { return {{"allocated", c.allocated}, {"reserved", c.reserved}}; }

/// null where memory had run out before.
Json counters_json(const std::optional<Counters>& c) { return c ? counters_json(*c) : Json(nullptr); }

Json trace_json(const Trace& trace) {
  Json steps = Json::array();
  for (const StepCounters& s : trace.steps) {
    steps.push_back({{"before", counters_json(s.before)},
                     {"after_forward", counters_json(s.after_forward)},
                     {"after_backward", counters_json(s.after_backward)},
                     {"after_optimizer_step", counters_json(s.after_optimizer_step)},
                     {"after_zero_grad", counters_json(s.after_zero_grad)},
                     {"peak", counters_json(s.peak)}});
  }
  return {{"after_warmup", counters_json(trace.after_warmup)},
          {"after_model", counters_json(trace.after_model)},
          {"after_optimizer", counters_json(trace.after_optimizer)},
          {"steps", std::move(steps)},
          {"peak", counters_json(trace.peak)},
          {"alloc_retries", trace.retries},
          {"oom", trace.oom ? to_json(*trace.oom) : Json(nullptr)}};
}

Json variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? Json(value) : Json(nullptr);
}

const char* name_of(Reading reading) {
  switch (reading) {
    case Reading::after_warmup:
      return "after_warmup";
    case Reading::after_model:
      return "after_model";
    case Reading::after_optimizer:
      return "after_optimizer";
    case Reading::before:
      return "before";
    case Reading::after_forward:
      return "after_forward";
    case Reading::after_backward:
      return "after_backward";
    case Reading::after_optimizer_step:
      return "after_optimizer_step";
    case Reading::after_zero_grad:
      return "after_zero_grad";
    case Reading::end_of_step:
      return "end_of_step";
  }
  return "";
}

Json points_json(const std::vector<Point>& points) {
  Json list = Json::array();
  for (const Point& p : points) {
    list.push_back({{"step", p.step},
                    {"phase", name_of(p.phase)},
                    {"layer", p.layer == kNoLayer ? Json(nullptr) : Json(p.layer)},
                    {"reading", p.reading ? Json(name_of(*p.reading)) : Json(nullptr)},
                    {"allocated", p.counters.allocated},
                    {"reserved", p.counters.reserved}});
  }
  return list;
}

template <class T>
Json known(const std::optional<T>& value) {
  return value ? Json(*value) : Json(nullptr);
}

Json card_json(const CardResult& card) {
  Json calibration = Json::array();
  for (const auto& c : card.calibration) calibration.push_back({{"requested", c.requested}, {"moved", c.moved}});
  Json stages = Json::array();
  for (const Stage& s : card.stages) {
    stages.push_back(
        {{"stage", s.name}, {"mem_get_info_used", known(s.runtime_used)}, {"nvml_used", known(s.nvml_used)}, {"segments", s.reserved}});
  }
  return {{"compute_capability", card.compute_capability},
          {"multiprocessors", card.multiprocessors},
          {"total", card.total},
          {"driver", known(card.driver)},
          {"driver_cuda", card.driver_cuda},
          {"runtime_cuda", card.runtime_cuda},
          {"other_processes", known(card.processes)},
          {"granule", card.granule},
          {"calibration", std::move(calibration)},
          {"stages", std::move(stages)},
          {"reconciliation",
           {{"context", card.context},
            {"cublas", card.cublas},
            {"kernels", card.kernels},
            {"scratch", card.scratch},
            {"segments", card.segments},
            {"residual", card.residual}}},
          {"runs", card.runs},
          {"runs_identical", card.runs_identical}};
}

Json unless_zero(double value) { return value == 0 ? Json(nullptr) : Json(value); }

}  // namespace

Json fixture_json(const RunResult& result, const MeasureOptions& options) {
  Json steps = Json::array();
  for (const StepResult& s : result.steps)
    steps.push_back({{"step", s.step}, {"loss", s.loss}, {"seconds", s.seconds}, {"tokens_per_second", s.tokens_per_second}});
  const std::string compiler =
#if defined(__clang__)
      "clang " __clang_version__;
#else
      "g++ " __VERSION__;
#endif
  return {{"schema", "whatfits-fixture"},
          {"schema_version", "1.0.0"},
          {"kind", "native"},
          {"provenance",
           {{"tool", "whatfits measure"},
            {"tool_version", WHATFITS_VERSION},
            {"compiler", compiler},
            {"argv", options.argv},
            {"recorded_at", utc_now()},
            {"suspect", result.suspect}}},
          {"device", {{"on", result.card ? "cuda" : "cpu"}, {"name", result.device}, {"processors", processors()}}},
          {"software",
           {{"os", system_name()},
            {"kernels", result.kernels},
            {"env",
             {{"OMP_NUM_THREADS", variable("OMP_NUM_THREADS")},
              {"OMP_WAIT_POLICY", variable("OMP_WAIT_POLICY")},
              {"CUDA_VISIBLE_DEVICES", variable("CUDA_VISIBLE_DEVICES")},
              {"CUDA_MODULE_LOADING", variable("CUDA_MODULE_LOADING")},
              {"CUBLAS_WORKSPACE_CONFIG", variable("CUBLAS_WORKSPACE_CONFIG")}}}}},
          {"request", request_json(result.config)},
          {"program_hash", result.program_hash},
          {"trace_hash", result.trace_hash},
          {"counters", trace_json(result.measured)},
          {"predicted_peak", counters_json(result.predicted.peak)},
          {"equals_prediction", result.equal},
          {"points", points_json(result.points)},
          {"host",
           {{"baseline_rss", result.baseline_rss},
            {"peak_rss", result.peak_rss},
            {"segments_touched", result.measured.peak.reserved},
            {"unexplained", unexplained(result)},
            {"constant", kProcess}}},
          {"card", result.card ? card_json(*result.card) : Json(nullptr)},
          {"training",
           {{"seed", options.seed},
            {"data", options.data.empty() ? "random" : "file"},
            {"steps", std::move(steps)},
            {"product_flops", result.flops},
            {"other_bytes", result.step_bytes},
            {"gemm_peak_flops", unless_zero(result.gemm_peak)},
            {"copy_peak_bytes_per_second", unless_zero(result.copy_peak)}}}};
}

}  // namespace whatfits::native
