// Python's pickle machine without anything that imports or calls: a stack, marks and a memo.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "opcodes.h"
#include "store.h"
#include "whatfits/snapshot.h"

namespace whatfits::snapshot {

class SnapshotReader::Machine {
 public:
  explicit Machine(const ReadLimits& limits) : store_(limits), memory_(limits.memory) {}

  bool feed(const std::uint8_t* bytes, std::size_t size);
  std::optional<Snapshot> finish();

  std::optional<ReadError> error;
  std::uint64_t offset() const { return offset_; }
  std::uint64_t events() const { return store_.events(); }

 private:
  /// Bytes used by the opcode at `at`, 0 if more are needed or something is wrong (then `error` says what).
  std::size_t step(const std::uint8_t* at, std::size_t size);
  std::size_t text(const std::uint8_t* at, std::size_t size, int length_bytes);
  std::size_t integer(const std::uint8_t* at, std::size_t size, int length_bytes);
  std::size_t get(std::uint64_t index, std::size_t used);
  std::size_t put(std::uint64_t index, std::size_t used);
  std::size_t gather(Store::Type type);
  std::size_t fixed_tuple(std::size_t count);
  std::size_t take(bool pairs);
  std::size_t fail(std::string message);
  void push(Value value) { stack_.push_back(value); }
  /// There are `count` values above the last mark (or the bottom).
  bool above_mark(std::size_t count) const { return stack_.size() - (marks_.empty() ? 0 : marks_.back()) >= count; }

  Store store_;
  std::size_t memory_;
  std::vector<Value> stack_;
  std::vector<std::size_t> marks_;
  std::vector<Value> memo_;
  std::vector<std::uint8_t> rest_;  ///< an unfinished opcode, from the piece before
  std::uint64_t offset_ = 0;
  std::uint64_t steps_ = 0;
  bool stopped_ = false;
};

}  // namespace whatfits::snapshot
