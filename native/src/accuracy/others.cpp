#include "accuracy/others.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <stdexcept>
#include <utility>

#include "accuracy/files.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits::accuracy {
namespace {

using nlohmann::json;

/// "steps[2].peak.allocated" -> "/steps/2/peak/allocated".
json::json_pointer pointer(const std::string& value) {
  std::string path = "/";
  for (const char c : value) {
    if (c == '.' || c == '[')
      path += '/';
    else if (c != ']')
      path += c;
  }
  return json::json_pointer(path);
}

OthersReading::Kind kind_of(const std::string& value) {
  if (value == "verdict") return OthersReading::Kind::verdict;
  return value == "peak.device" ? OthersReading::Kind::nvidia_smi : OthersReading::Kind::pytorch;
}

OthersReading reading(const std::string& id, const json& wanted, const json& published, const json& report) {
  OthersReading out;
  out.counter = wanted.at("counter");
  out.value = wanted.at("value");
  out.kind = kind_of(out.value);
  if (out.kind == OthersReading::Kind::verdict) {
    out.measured = published.at("verdict") == "fits" ? 1 : 0;
    out.predicted = report.at("verdict") == "fits" ? 1 : 0;
    return out;
  }
  const json::json_pointer where = pointer(out.value);
  if (!report.contains(where)) throw std::runtime_error(id + ": the prediction has no " + out.value);
  out.predicted = report.at(where).get<std::int64_t>();
  for (const json& one : published.at("measured")) {
    const auto counter = one.at("counter").get<std::string>();
    if (!counter.starts_with(out.counter)) continue;
    out.counter = counter;
    out.measured = one.at("bytes");
    out.halfwidth = one.value("rounding_halfwidth_bytes", std::int64_t{0});
    return out;
  }
  throw std::runtime_error(id + ": was not read by " + out.counter);
}

std::string group_of(const json& row) {
  const auto id = row.at("id").get<std::string>();
  return row.value("group", id.substr(0, id.find('-')));
}

OthersRow compare(const std::string& id, const json& entry, const json& published, const Config& request, const json& report) {
  OthersRow row{.id = id,
                .grade = published.at("grade"),
                .group = group_of(published),
                .request = request,
                .source = published.at("source").at("url"),
                .assumed = entry.at("assumed").get<std::vector<std::string>>(),
                .why = entry.value("why", ""),
                .peak_phase = report.at("peak").at("at").is_object() ? report.at("peak").at("at").at("phase").get<std::string>() : "",
                .needs_peak_in = entry.value("peak_phase", ""),
                .readings = {}};
  for (const json& wanted : entry.at("reads")) row.readings.push_back(reading(id, wanted, published, report));
  return row;
}

Config config_of(const std::string& id, const json& request) {
  ParsedRequest parsed = parse_request(request.dump());
  if (!parsed.problems.empty()) throw std::runtime_error(id + ": " + to_line(parsed.problems.front()));
  return std::move(parsed.config);
}

Others compare_all(const std::map<std::string, const json*>& rows, const json& requests) {
  std::set<std::string> seen;
  const auto row_of = [&](const std::string& id) -> const json& {
    if (!rows.contains(id)) throw std::runtime_error("published/requests.json: " + id + " is no row of published/others.json");
    if (!seen.insert(id).second) throw std::runtime_error("published/requests.json: " + id + " is there twice");
    return *rows.at(id);
  };
  Others out;
  out.published = rows.size();
  for (const json& entry : requests.at("requests")) {
    const auto ids = entry.at("rows").get<std::vector<std::string>>();
    const Config request = config_of(ids.front(), entry.at("request"));
    const json report = to_json(estimate(request));
    for (const std::string& id : ids) out.rows.push_back(compare(id, entry, row_of(id), request, report));
  }
  for (const json& entry : requests.at("not_covered")) {
    Others::Reason reason;
    reason.why = entry.at("why");
    for (const json& id : entry.at("rows")) {
      ++reason.by_grade[row_of(id.get<std::string>()).at("grade").get<std::string>()];
      ++reason.rows;
    }
    out.not_covered.push_back(std::move(reason));
  }
  for (const auto& [id, row] : rows) {
    if (!seen.contains(id)) throw std::runtime_error("published/requests.json: has neither a request nor a reason for " + id);
  }
  std::stable_sort(out.not_covered.begin(), out.not_covered.end(),
                   [](const Others::Reason& a, const Others::Reason& b) { return a.rows > b.rows; });
  return out;
}

}  // namespace

double OthersReading::error_percent() const {
  if (measured == 0) return 0;
  return 100 * static_cast<double>(predicted - measured) / static_cast<double>(measured);
}

Others compare_others(const std::string& folder) {
  Others out;
  with_json(folder, "published/others.json", [&](const json& published) {
    std::map<std::string, const json*> rows;
    for (const json& row : published.at("points")) rows[row.at("id").get<std::string>()] = &row;
    with_json(folder, "published/requests.json", [&](const json& requests) { out = compare_all(rows, requests); });
  });
  return out;
}

Spread spread(std::vector<double> error_percents) {
  Spread out;
  out.count = error_percents.size();
  if (error_percents.empty()) return out;
  for (double& error : error_percents) error = std::abs(error);
  std::sort(error_percents.begin(), error_percents.end());
  const std::size_t half = out.count / 2;
  out.median = out.count % 2 == 1 ? error_percents[half] : (error_percents[half - 1] + error_percents[half]) / 2;
  out.ninetieth = error_percents[(9 * out.count + 9) / 10 - 1];
  return out;
}

Spread spread_of(const Others& others, const std::string& grade, const std::string& group) {
  std::vector<double> errors;
  for (const OthersRow& row : others.rows) {
    const bool wanted = (grade.empty() || row.grade == grade) && (group.empty() || row.group == group);
    if (wanted && row.readings.front().kind == OthersReading::Kind::pytorch) errors.push_back(row.readings.front().error_percent());
  }
  return spread(std::move(errors));
}

}  // namespace whatfits::accuracy
