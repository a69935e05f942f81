#include "accuracy/published_sweep.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "whatfits/presets.h"
#include "whatfits/request.h"

namespace whatfits::accuracy {
namespace {

using nlohmann::json;

/// Which counter a figure is the highest level of; none for changes, levels at a moment, and verdicts.
std::optional<Printed> SweepRun::* counter_of(const std::string& id) {
  if (id == "step2_peak" || (id.starts_with("batch") && id.ends_with("_allocated"))) return &SweepRun::allocated;
  if (id.starts_with("batch") && id.ends_with("_reserved")) return &SweepRun::reserved;
  return nullptr;
}

}  // namespace

bool is_sweep(const json& file) {
  return file.is_object() && file.contains("kind") && file.at("kind") == "published" && file.contains("figures") &&
         file.at("figures").is_array();
}

json sweep_request(const json& file, std::int64_t batch) {
  const auto card = file.at("device").at("name").get<std::string>();
  const std::vector<DevicePreset> known = device_presets();
  const auto preset = std::find_if(known.begin(), known.end(), [&](const DevicePreset& one) { return one.device.name == card; });
  if (preset == known.end()) throw std::runtime_error("device.name: is none that whatfits devices lists");
  const json& run = file.at("run");
  json request{{"model", file.at("model").at("model_type").get<std::string>()},
               {"batch", batch},
               {"seq_len", run.at("seq_len").get<std::int64_t>()},
               {"device", preset->id}};
  for (const char* key : {"precision", "attention", "optimizer", "zero_grad"}) request[key] = run.at(key).get<std::string>();
  return request;
}

Sweep read_sweep(const json& file) {
  Sweep out;
  out.card = file.at("device").at("name").get<std::string>();
  if (const auto free = json::json_pointer("/budget/free_at_start/bytes"); file.contains(free))
    out.free = file.at(free).get<std::int64_t>();
  std::map<std::int64_t, SweepRun> runs;
  for (const json& figure : file.at("figures")) {
    const auto counter = counter_of(figure.at("id").get<std::string>());
    if (counter == nullptr) continue;
    const auto batch = figure.at("batch").get<std::int64_t>();
    const Printed printed{figure.at("bytes").get<std::int64_t>(), figure.at("rounding_halfwidth_bytes").get<std::int64_t>()};
    constexpr std::int64_t kMost = std::int64_t{1} << 50;
    if (printed.bytes <= 0 || printed.bytes > kMost || printed.halfwidth < 0 || printed.halfwidth > printed.bytes)
      throw std::runtime_error(figure.at("id").get<std::string>() + ": its bytes are out of range");
    const auto [entry, fresh] = runs.try_emplace(batch);
    if (fresh) {
      ParsedRequest parsed = parse_request(sweep_request(file, batch));
      if (!parsed.problems.empty()) throw std::runtime_error(to_line(parsed.problems.front()));
      entry->second.name = "batch " + std::to_string(batch);
      entry->second.config = std::move(parsed.config);
    }
    entry->second.*counter = printed;
  }
  for (auto& [batch, run] : runs) out.runs.push_back(std::move(run));
  return out;
}

}  // namespace whatfits::accuracy
