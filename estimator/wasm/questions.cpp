#include "questions.h"

#include "whatfits/estimate.h"
#include "whatfits/presets.h"
#include "whatfits/request.h"

namespace whatfits::wasm {

namespace {

std::string_view word(Problem::Kind kind) {
  switch (kind) {
    case Problem::Kind::not_allowed: return "not-allowed";
    case Problem::Kind::unsupported: return "unsupported";
    case Problem::Kind::statement: return "statement";
  }
  return "";
}

/// At the peak the report has it already; anywhere else it is counted afresh.
Json ledger_json(const Config& config, std::uint64_t event) {
  const bool replayed = config.engine != Engine::formula;
  return to_json(event == kAtPeak || !replayed ? estimate(config).ledger : ledger_at(config, event));
}

Json answer_json(Question question, const Config& config, std::uint64_t event) {
  switch (question) {
    case Question::request: return {{"request", request_json(config)}};
    case Question::estimate: return to_json(estimate(config));
    case Question::fit_batch: return to_json(fit(config, Axis::batch));
    case Question::fit_seq_len: return to_json(fit(config, Axis::seq_len));
    case Question::ledger: return ledger_json(config, event);
    case Question::advise: return to_json(advise(config));
    case Question::explain: return to_json(explain(config));
    case Question::presets: break;
  }
  return presets_json();
}

Json device_json(const DevicePreset& preset) {
  Json out;
  out["id"] = preset.id;
  out["alias"] = preset.alias.empty() ? Json(nullptr) : Json(preset.alias);
  out["vendor"] = preset.vendor;
  out["name"] = preset.device.name;
  out["total_mib"] = preset.device.total_mib;
  out["free_mib"] = preset.device.free_mib;
  const int capability = preset.device.compute_capability;
  out["compute_capability"] = nullptr;
  if (capability > 0) out["compute_capability"] = std::to_string(capability / 10) + "." + std::to_string(capability % 10);
  out["sm_count"] = preset.device.sm_count > 0 ? Json(preset.device.sm_count) : Json(nullptr);
  out["total_assumed"] = preset.device.total_assumed;
  out["free_assumed"] = preset.device.free_assumed;
  out["budgets"] = preset.budgets;
  out["missing"] = preset.missing;
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
    list.push_back({{"key", problem.key},
                    {"value", problem.value},
                    {"message", problem.message},
                    {"kind", word(problem.kind)},
                    {"line", to_line(problem)}});
  }
  problems = {false, write({{"problems", std::move(list)}})};
  return false;
}

Json presets_json() {
  Json devices = Json::array();
  for (const DevicePreset& preset : device_presets()) devices.push_back(device_json(preset));
  Json models = Json::array();
  for (const ModelPreset& preset : model_presets()) {
    Config config;
    config.model = preset.config;
    config.model.preset.clear();  // so that its dimensions are written, not its name
    models.push_back({{"id", preset.id}, {"parameters", preset.parameters}, {"config", request_json(config)["model"]}});
  }
  return {{"devices", std::move(devices)}, {"models", std::move(models)}, {"models_to_come", models_to_come()}};
}

Answer ask(Question question, std::string_view request, std::uint64_t event) {
  Config config;
  Answer answer;
  if (question == Question::presets) return {true, write(presets_json())};
  if (!read_request(request, config, answer)) return answer;
  return {true, write(answer_json(question, config, event))};
}

}  // namespace whatfits::wasm
