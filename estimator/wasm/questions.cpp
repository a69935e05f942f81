#include "questions.h"

#include "analysis/put.h"
#include "whatfits/estimate.h"
#include "whatfits/presets.h"
#include "whatfits/request.h"

namespace whatfits::wasm {

namespace {

std::string_view word(Problem::Kind kind) {
  switch (kind) {
    case Problem::Kind::not_allowed:
      return "not-allowed";
    case Problem::Kind::unsupported:
      return "unsupported";
    case Problem::Kind::statement:
      return "statement";
  }
  return "";
}

/// At the peak the report has it already; anywhere else it is counted afresh.
Json ledger_json(const Config& config, std::uint64_t event) {
  const bool replayed = config.engine == Engine::torch;
  return to_json(event == kAtPeak || !replayed ? estimate(config).ledger : ledger_at(config, event));
}

Json answer_json(Question question, const Config& config, std::uint64_t event) {
  switch (question) {
    case Question::estimate:
      return to_json(estimate(config));
    case Question::fit_batch:
      return to_json(fit(config, Axis::batch));
    case Question::fit_seq_len:
      return to_json(fit(config, Axis::seq_len));
    case Question::ledger:
      return ledger_json(config, event);
    case Question::advise:
      return to_json(advise(config));
    case Question::explain:
      return to_json(explain(config));
    case Question::request:
    case Question::presets:
      break;
  }
  return nullptr;
}

Json device_json(const DevicePreset& preset) {
  Json out;
  put(out, "id", preset.id);
  put(out, "alias", preset.alias.empty() ? Json(nullptr) : Json(preset.alias));
  put(out, "vendor", preset.vendor);
  put(out, "name", preset.device.name);
  put(out, "total_mib", preset.device.total_mib);
  put(out, "free_mib", preset.device.free_mib);
  const int capability = preset.device.compute_capability;
  put(out, "compute_capability",
      capability > 0 ? Json(std::to_string(capability / 10) + "." + std::to_string(capability % 10)) : Json(nullptr));
  put(out, "sm_count", preset.device.sm_count > 0 ? Json(preset.device.sm_count) : Json(nullptr));
  put(out, "total_assumed", preset.device.total_assumed);
  put(out, "free_assumed", preset.device.free_assumed);
  put(out, "budgets", preset.budgets);
  put(out, "missing", preset.missing);
  return out;
}

}  // namespace

std::string write(const Json& json) { return json.dump(-1, ' ', false, Json::error_handler_t::replace); }

bool read_request(std::string_view text, Config& config, Answer& problems) {
  ParsedRequest parsed = parse_request(text);
  if (parsed.problems.empty()) {
    config = std::move(parsed.config);
    return true;
  }
  Json list = Json::array();
  for (const Problem& problem : parsed.problems) {
    Json item;
    put(item, "key", problem.key);
    put(item, "value", problem.value);
    put(item, "message", problem.message);
    put(item, "kind", word(problem.kind));
    put(item, "line", to_line(problem));
    list.push_back(std::move(item));
  }
  Json out;
  put(out, "problems", std::move(list));
  problems = {false, write(out)};
  return false;
}

std::string request_text(const Config& config) {
  Json out;
  put(out, "request", request_json(config));
  return write(out);
}

Json presets_json() {
  Json devices = Json::array();
  for (const DevicePreset& preset : device_presets()) devices.push_back(device_json(preset));
  Json models = Json::array();
  for (const ModelPreset& preset : model_presets()) {
    Json item;
    put(item, "id", preset.id);
    put(item, "parameters", preset.parameters);
    put(item, "config", model_json(preset.config));
    models.push_back(std::move(item));
  }
  Json out;
  put(out, "devices", std::move(devices));
  put(out, "models", std::move(models));
  put(out, "models_to_come", models_to_come());
  return out;
}

Answer ask(Question question, std::string_view request, std::uint64_t event) {
  Config config;
  Answer answer;
  if (question == Question::presets) return {true, write(presets_json())};
  if (!read_request(request, config, answer)) return answer;
  if (question == Question::request) return {true, request_text(config)};
  return {true, write(answer_json(question, config, event))};
}

}  // namespace whatfits::wasm
