// What torch.cuda.memory._snapshot() saw: segments, blocks, and the allocator's events with the Python stacks that caused them.
//
// Read from a pickle of protocols 2 to 5, as torch.cuda.memory._dump_snapshot() writes it. Only data is read: an opcode that would
// import or call anything is refused by its name and place.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/bytes.h"

namespace whatfits::snapshot {

using StringId = std::uint32_t;
using StackId = std::uint32_t;
inline constexpr StackId kNoStack = 0;  ///< Snapshot::stacks[0] is empty

/// One line of a Python stack.
struct StackFrame {
  StringId function = 0;
  StringId file = 0;
  std::uint32_t line = 0;
  friend bool operator==(const StackFrame&, const StackFrame&) = default;
};

/// PyTorch's TraceEntry::Action. `other` is one that this reader does not know.
enum class Action : std::uint8_t {
  alloc,
  free_requested,
  free_completed,
  segment_alloc,
  segment_free,
  segment_map,
  segment_unmap,
  snapshot,
  out_of_memory,
  other
};
std::string_view name_of(Action action);

struct TraceEvent {
  std::uint64_t address = 0;  ///< of an out_of_memory: the bytes that the device still had free
  Bytes size = 0;             ///< asked for; the allocator rounds
  std::uint64_t stream = 0;
  std::int64_t time_us = 0;
  StackId stack = kNoStack;
  Action action = Action::other;
};

struct SnapshotBlock {
  std::uint64_t address = 0;
  Bytes size = 0;
  Bytes requested = 0;
  StackId stack = kNoStack;
  enum class State : std::uint8_t { inactive, active_allocated, active_awaiting_free } state = State::inactive;
};

struct SnapshotSegment {
  std::uint64_t address = 0;
  Bytes size = 0;
  std::uint64_t stream = 0;
  int device = 0;
  bool small = false;
  bool expandable = false;
  std::vector<SnapshotBlock> blocks;
};

/// The recorded run's PYTORCH_CUDA_ALLOC_CONF, as far as it decides which block serves a request.
struct AllocatorSettings {
  /// roundup_power2_divisions for requests below 2 MiB, below 4 MiB, … and all from 32 GiB on; 0 or 1 for none.
  std::array<Bytes, 16> divisions{};
  Bytes max_split = std::numeric_limits<Bytes>::max();  ///< max_split_size: a request of this or more keeps its whole block
};

struct Snapshot {
  std::vector<std::string> strings{""};
  std::vector<std::vector<StackFrame>> stacks{{}};
  std::vector<SnapshotSegment> segments;        ///< at the end
  std::vector<std::vector<TraceEvent>> traces;  ///< by device, oldest first
  std::vector<std::uint64_t> events_seen;       ///< by device: of the file, those out of the asked range included
  std::vector<std::vector<TraceEvent>> after;   ///< by device: past the asked range, the first event of each block and of each segment
  AllocatorSettings settings;                   ///< allocator_settings, where the file has them
  std::string_view text(StringId id) const { return strings[id]; }
  /// The innermost line of a stack that is not PyTorch's own, the user's; null if there is none.
  const StackFrame* user_frame(StackId stack) const;
  /// "train.py:31", without folders.
  std::string place(const StackFrame& frame) const;
};

struct ReadLimits {
  std::size_t memory = std::numeric_limits<std::size_t>::max();          ///< bytes that the reader may hold, roughly
  std::uint64_t first_event = 0;                                         ///< events before it are counted, and not kept
  std::uint64_t last_event = std::numeric_limits<std::uint64_t>::max();  ///< of those past it, Snapshot::after is kept
};

/// What is wrong with the file, and where.
struct ReadError {
  std::uint64_t offset = 0;  ///< of the opcode, in bytes from the file's start
  std::string message;
};

/// Reads in pieces of any size, as they come; holds what it has understood and at most one unfinished value.
class SnapshotReader {
 public:
  explicit SnapshotReader(ReadLimits limits = {});
  ~SnapshotReader();
  SnapshotReader(const SnapshotReader&) = delete;
  SnapshotReader& operator=(const SnapshotReader&) = delete;

  /// The file's next bytes. False once something is wrong; the rest need not be given.
  bool feed(const void* bytes, std::size_t size);
  /// After the last piece: the snapshot, or nothing and error().
  std::optional<Snapshot> finish();
  const std::optional<ReadError>& error() const;
  std::uint64_t bytes_read() const;
  std::uint64_t events_read() const;

 private:
  class Machine;
  std::unique_ptr<Machine> machine_;
};

}  // namespace whatfits::snapshot
