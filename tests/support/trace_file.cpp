#include "support/trace_file.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>
#include <stdexcept>

namespace whatfits::testing {
namespace {

const std::map<std::string, TraceAction, std::less<>> actions = {{"a", TraceAction::allocate},        {"f", TraceAction::free},
                                                                 {"sa", TraceAction::segment_alloc},  {"sf", TraceAction::segment_free},
                                                                 {"sm", TraceAction::segment_map},    {"su", TraceAction::segment_unmap},
                                                                 {"oom", TraceAction::out_of_memory}, {"mark", TraceAction::mark}};

Bytes device_mib(const nlohmann::json& request, const char* key, Bytes otherwise) {
  return (request.contains("device") ? request["device"].value(key, otherwise) : otherwise) * MiB;
}

/// False if the line is not an event.
bool read_event(const std::string& line, TraceFile& trace) {
  std::istringstream in(line);
  std::string word;
  in >> word;
  const auto action = actions.find(word);
  if (action == actions.end()) return false;
  TraceEvent event;
  event.action = action->second;
  if (event.action == TraceAction::free) {
    in >> event.index;
  } else if (event.action == TraceAction::mark) {
    event.index = trace.marks.size();
    in >> trace.marks.emplace_back();
  } else {
    in >> event.bytes >> event.address;
    if (event.action == TraceAction::allocate) in >> event.label;
  }
  trace.events.push_back(event);
  return !in.fail() && (in >> std::ws).eof();
}

}  // namespace

bool TraceFile::expandable_segments() const {
  return request.contains("allocator") && request["allocator"].value("expandable_segments", false);
}

Bytes TraceFile::device_free() const { return device_mib(request, "free_mib", 45440); }
Bytes TraceFile::device_total() const { return device_mib(request, "total_mib", 46068); }

nlohmann::json TraceFile::counters(const std::string& mark) const {
  const std::size_t colon = mark.find(':');
  const std::size_t step = std::stoul(mark.substr(0, colon));
  const std::string key = "after_" + mark.substr(colon + 1);
  if (step == 0) return truth.value(key, nlohmann::json());
  return step <= truth["steps"].size() ? truth["steps"][step - 1].value(key, nlohmann::json()) : nlohmann::json();
}

TraceFile read_trace(const std::string& path) {
  std::ifstream in(path);
  TraceFile trace;
  trace.name = std::filesystem::path(path).stem().string();
  std::string line;
  int number = 0;
  const auto fail = [&](const char* what) { throw std::runtime_error(path + ":" + std::to_string(number) + ": " + what); };
  const auto next = [&] {
    ++number;
    return static_cast<bool>(std::getline(in, line));
  };
  const std::string labels = "labels ";
  if (!next() || line != "whatfits-trace 1") fail("not a trace");
  try {
    if (next()) trace.request = nlohmann::json::parse(line);
    if (next()) trace.truth = nlohmann::json::parse(line);
    if (!next() || !line.starts_with(labels)) fail("no labels");
    trace.labels = nlohmann::json::parse(line.substr(labels.size())).get<std::vector<std::string>>();
  } catch (const nlohmann::json::exception& error) {
    fail(error.what());
  }
  while (next()) {
    if (!read_event(line, trace)) fail("not an event");
  }
  return trace;
}

std::vector<std::string> trace_paths(const std::string& folder) {
  std::vector<std::string> paths;
  for (const auto& entry : std::filesystem::directory_iterator(WHATFITS_FIXTURES "/torch/traces/" + folder)) {
    if (entry.path().extension() == ".txt") paths.push_back(entry.path().string());
  }
  std::sort(paths.begin(), paths.end());
  return paths;
}

}  // namespace whatfits::testing
