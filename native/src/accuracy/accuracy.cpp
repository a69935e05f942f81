#include "accuracy/accuracy.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "accuracy/files.h"
#include "accuracy/published_sweep.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits::accuracy {
namespace {

using nlohmann::json;

Config config_of(const std::string& where, const json& request) {
  const ParsedRequest parsed = parse_request(request.dump());
  if (!parsed.problems.empty()) throw std::runtime_error(where + ": " + to_line(parsed.problems.front()));
  return parsed.config;
}

json report_of(const std::string& where, const json& request) { return to_json(estimate(config_of(where, request))); }

/// A dotted path into a report; null where it ends early.
json at(const json& value, const std::string& path) {
  const json::json_pointer pointer("/" + path);
  return value.contains(pointer) ? value.at(pointer) : json();
}

/// What can be compared as a number: numbers, and verdicts.
std::optional<std::int64_t> number(const json& value) {
  if (value.is_number_integer()) return value.get<std::int64_t>();
  if (value == "fits") return 1;
  if (value == "oom") return 0;
  return {};
}

/// Every number in `truth`, by path.
void leaves(const json& truth, const std::string& path, std::map<std::string, std::int64_t>& out) {
  if (truth.is_structured()) {
    for (const auto& [key, value] : truth.items()) leaves(value, path.empty() ? key : path + "/" + key, out);
  } else if (const auto n = number(truth)) {
    out[path] = *n;
  }
}

/// "steps/1/peak/allocated" -> "steps[1].peak.allocated".
std::string readable(const std::string& path) {
  std::string text;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('/', begin), path.size());
    const std::string part = path.substr(begin, end - begin);
    const bool index = !part.empty() && part.find_first_not_of("0123456789") == std::string::npos;
    if (index) text += "[" + part + "]";
    if (!index) text += (text.empty() ? "" : ".") + part;
    begin = end + 1;
  }
  return text;
}

}  // namespace

bool Row::agrees() const { return predicted.has_value() == measured.has_value() && error() >= -tolerance && error() <= tolerance; }

std::vector<Row> compare_torch_run(const std::string& file, const json& fixture) {
  const std::string name = file + ": " + fixture.at("id").get<std::string>();
  const Config config = config_of(name, fixture.at("request"));
  const json report = to_json(estimate(config));
  const std::string group = file == "torch/huggingface" ? file + " " + config.model.model_type : file;
  std::map<std::string, std::int64_t> measured;
  leaves(fixture.at("truth"), "", measured);
  std::vector<Row> rows;
  for (const auto& [path, value] : measured) rows.push_back({group, name, readable(path), number(at(report, path)), value});
  // A reading that only the prediction has: it went on where PyTorch failed. With several micro-batches the recording script notes a
  // step's readings after the last, so that a failing step has none; the report has those of the micro-batches before.
  const json& request = fixture.at("request");
  if (fixture.at("truth").value("verdict", "") == "oom" && request.value("grad_accumulation", 1) > 1) return rows;
  std::map<std::string, std::int64_t> predicted;
  leaves(report.at("steps"), "steps", predicted);
  for (const auto& [path, value] : predicted) {
    if (!measured.contains(path)) rows.push_back({group, name, readable(path), value, {}});
  }
  return rows;
}

std::vector<Row> compare_published(const std::string& file, const json& article) {
  std::map<std::int64_t, json> reports;
  const auto report = [&](std::int64_t batch) -> const json& {
    const auto [entry, fresh] = reports.try_emplace(batch);
    if (fresh) entry->second = report_of(file, sweep_request(article, batch));
    return entry->second;
  };
  const auto value = [&](const std::string& path) { return number(at(report(8), path)).value(); };
  const std::string one = "steps/0/";
  const std::string two = "steps/1/";
  const auto rise = [&](const std::string& from, const std::string& to) { return value(to + "/allocated") - value(from + "/allocated"); };
  // Figures that a script reads off its counters; those inside a step (a block, the saved activations) are in articles_test.cpp.
  const std::map<std::string, std::int64_t> predicted = {
      {"warmup", value("after_warmup/allocated")},
      {"model_cuda", rise("after_warmup", "after_model")},
      {"optimizer_created", rise("after_model", "after_optimizer")},
      {"first_optimizer_step", rise(one + "after_backward", one + "after_optimizer_step")},
      {"zero_grad", rise(one + "after_optimizer_step", one + "after_zero_grad")},
      {"second_optimizer_step", rise(two + "after_backward", two + "after_optimizer_step")},
      {"step2_start", value(two + "before/allocated")},
      {"step2_forward", rise(two + "before", two + "after_forward")},
      {"step2_after_forward", value(two + "after_forward/allocated")},
      {"step2_peak", value(two + "peak/allocated")},
      {"step2_peak_less_step1", rise(one + "peak", two + "peak")},
  };
  std::vector<Row> rows;
  for (const json& figure : article.at("figures")) {
    const auto id = figure.at("id").get<std::string>();
    if (figure.contains("verdict")) {
      const json& run = report(figure.at("batch").get<std::int64_t>());
      rows.push_back({file, file, id, number(run.at("verdict")), number(figure.at("verdict"))});
      if (figure.at("step").is_number())
        rows.push_back({file, file, id + ", step", number(at(run, "oom/step")), number(figure.at("step"))});
      continue;
    }
    std::optional<std::int64_t> ours;
    if (predicted.contains(id)) ours = predicted.at(id);
    if (id.starts_with("batch")) ours = number(at(report(figure.at("batch").get<std::int64_t>()), "peak/" + id.substr(id.find('_') + 1)));
    if (!ours) continue;
    rows.push_back(
        {file, file, id, ours, figure.at("bytes").get<std::int64_t>(), figure.at("rounding_halfwidth_bytes").get<std::int64_t>()});
  }
  return rows;
}

std::vector<Row> compare_native(const std::string& file, const json& fixture) {
  const json& counters = fixture.at("counters");
  const json truth = {{"after_warmup", counters.at("after_warmup")},
                      {"after_model", counters.at("after_model")},
                      {"after_optimizer", counters.at("after_optimizer")},
                      {"steps", counters.at("steps")},
                      {"peak", counters.at("peak")}};
  std::vector<Row> rows = compare_torch_run("native", {{"id", file}, {"request", fixture.at("request")}, {"truth", truth}});
  const json& host = fixture.at("host");
  const auto measured = host.at("peak_rss").get<std::int64_t>();
  const json report = report_of(file, fixture.at("request"));
  rows.push_back({"native", "native: " + file, "host.peak_rss",
                  number(at(report, "peak/reserved")).value() + host.at("constant").get<std::int64_t>(), measured, measured * 3 / 100});
  return rows;
}

namespace {

bool is_plain(const Config& config) {
  return config.model.model_type == "gpt2-from-scratch" && config.precision == Precision::fp32 && config.attention == Attention::eager &&
         (config.optimizer == Optimizer::adamw || config.optimizer == Optimizer::adamw_fused ||
          config.optimizer == Optimizer::adamw_for_loop) &&
         config.checkpointing == Checkpointing::none && config.grad_accumulation == 1 && !config.clip_grad_norm &&
         config.zero_grad == ZeroGrad::set_to_none;
}

}  // namespace

std::vector<MeasuredPeak> plain_peaks(const std::string& folder) {
  std::vector<MeasuredPeak> peaks;
  for (const std::string& file : files_of(folder, "torch", ".jsonl")) {
    const std::string stem = file.substr(0, file.rfind('.'));
    if (stem != "torch/gpt2-from-scratch" && stem != "torch/gpt2-from-scratch-odd") continue;
    with_lines(folder, file, [&](const json& fixture) {
      const std::string name = stem + ": " + fixture.at("id").get<std::string>();
      MeasuredPeak peak{name, config_of(name, fixture.at("request")), 0};
      if (!is_plain(peak.config) || fixture.at("truth").at("verdict") != "fits") return;
      for (const json& step : fixture.at("truth").at("steps"))
        peak.allocated = std::max(peak.allocated, step.at("peak").at("allocated").get<std::int64_t>());
      peaks.push_back(std::move(peak));
    });
  }
  with_json(folder, "published/gpt2-a40.json", [&](const json& article) {
    for (const SweepRun& run : read_sweep(article).runs) {
      if (run.allocated) peaks.push_back({"published/gpt2-a40: " + run.name, run.config, run.allocated->bytes});
    }
  });
  return peaks;
}

std::map<std::string, std::string> known_inexact(const std::string& folder) {
  std::map<std::string, std::string> known;
  with_json(folder, "torch/inexact.json", [&](const json& file) { known = file.get<std::map<std::string, std::string>>(); });
  return known;
}

std::vector<Row> compare_all(const std::string& folder) {
  std::vector<Row> all;
  const auto add = [&](std::vector<Row> rows) { all.insert(all.end(), rows.begin(), rows.end()); };
  const auto stem = [](const std::string& file) { return file.substr(0, file.rfind('.')); };
  for (const std::string& file : files_of(folder, "torch", ".jsonl"))
    with_lines(folder, file, [&](const json& fixture) { add(compare_torch_run(stem(file), fixture)); });
  for (const std::string& file : files_of(folder, "native", ".json"))
    with_json(folder, file, [&](const json& fixture) { add(compare_native(stem(file).substr(file.find('/') + 1), fixture)); });
  const std::string article = "published/gpt2-a40";
  with_json(folder, article + ".json", [&](const json& file) { add(compare_published(article, file)); });
  return all;
}

}  // namespace whatfits::accuracy
