// Reads the event streams in fixtures/torch/traces; their format is described there.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "whatfits/bytes.h"

namespace whatfits::testing {

enum class TraceAction { allocate, free, segment_alloc, segment_free, segment_map, segment_unmap, out_of_memory, mark };

struct TraceEvent {
  TraceAction action = TraceAction::mark;
  Bytes bytes = 0;            ///< asked for; of a segment: its size; of out_of_memory: the block that was refused
  std::uint64_t address = 0;  ///< less the lowest one of the run; of out_of_memory: bytes free on the device
  std::uint64_t index = 0;    ///< of free: which allocation; of mark: into TraceFile::marks
  int label = -1;             ///< of allocate: into TraceFile::labels; -1 none
};

struct TraceFile {  // NOLINT(bugprone-exception-escape): about the assertions inside json's move
  std::string name;
  nlohmann::json request;
  nlohmann::json truth;
  std::vector<std::string> labels;
  std::vector<std::string> marks;
  std::vector<TraceEvent> events;

  bool expandable_segments() const;
  Bytes device_free() const;  ///< what the allocator may have; an A40's if the request names no device
  Bytes device_total() const;
  /// The counters {"allocated", "reserved"} that PyTorch had at a mark; null where it ran out of memory before.
  nlohmann::json counters(const std::string& mark) const;
};

/// Throws std::runtime_error with file and line if it is not a trace.
TraceFile read_trace(const std::string& path);

/// The files of a folder under fixtures/torch/traces, by name.
std::vector<std::string> trace_paths(const std::string& folder);

}  // namespace whatfits::testing
