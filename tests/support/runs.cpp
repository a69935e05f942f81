#include "support/runs.h"

#include <fstream>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "whatfits/request.h"

namespace whatfits::testing {

Config config_of(const std::string& request) {
  const ParsedRequest parsed = parse_request(request);
  if (parsed.problems.empty()) return parsed.config;
  std::string lines = "not a valid request: " + request;
  for (const Problem& problem : parsed.problems) lines += "\n  " + to_line(problem);
  throw std::runtime_error(lines);
}

Config config_of(const nlohmann::json& request) { return config_of(request.dump()); }

std::vector<nlohmann::json> read_json_lines(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  std::vector<nlohmann::json> rows;
  for (std::string line; std::getline(in, line);) {
    if (!line.empty()) rows.push_back(nlohmann::json::parse(line));
  }
  return rows;
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream in(path);
  if (!in) throw std::runtime_error(path + ": cannot be read");
  return nlohmann::json::parse(in);
}

std::string describe(const Program& program, StorageId storage) {
  const StorageInfo& info = program.storages[storage];
  std::string text = std::to_string(info.bytes) + " bytes, " + std::string(name_of(info.op)) + " '" + program.labels[info.label] + "', " +
                     std::string(name_of(info.phase));
  if (info.layer != kNoLayer) text += ", layer " + std::to_string(info.layer);
  return text;
}

}  // namespace whatfits::testing
