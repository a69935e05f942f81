// The values of a pickle while it is read. What is recognised as a part of a snapshot is turned into it as soon as a container takes
// it in, so that no more than one batch of the file is ever held as dictionaries.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "whatfits/snapshot.h"

namespace whatfits::snapshot {

struct Value {
  enum class Kind : std::uint8_t { none, boolean, integer, negative, too_large, real, text, object };
  Kind kind = Kind::none;
  std::uint64_t bits = 0;  ///< the integer (two's complement if negative), the text's id, the object's index
};

class Store {
 public:
  explicit Store(const ReadLimits& limits);

  enum class Type : std::uint8_t { list, tuple, set, dict, frame, stack, event, block, segment, trace };

  Value text(std::string_view text);
  Value container(Type type);
  /// Puts items into a list, tuple or set. False if it is no such thing.
  bool extend(const Value& container, const Value* items, std::size_t count);
  /// Puts pairs (key, value, key, value, ...) into a dictionary. False if it is none.
  bool set(const Value& dict, const Value* pairs, std::size_t count);

  /// What the file's last value says; an error's text when it is no snapshot.
  std::optional<std::string> finish(const Value& root, Snapshot& out);

  /// Bytes held, roughly.
  std::size_t held() const;
  std::uint64_t events() const { return events_; }

 private:
  struct Object {
    Type type = Type::list;
    std::uint32_t index = 0;  ///< of `items`, or of what it was turned into
  };
  /// Of a value that is one.
  Object& object_of(const Value& value) { return objects_[static_cast<std::size_t>(value.bits)]; }
  const Object& object_of(const Value& value) const { return objects_[static_cast<std::size_t>(value.bits)]; }
  std::vector<Value>& items(const Object& object) { return items_[object.index]; }
  void take_in(const Value& value);
  void become(Object& object, Type type, std::size_t index);
  bool to_frame(Object& object);
  bool to_event(Object& object);
  bool to_block(Object& object);
  bool to_segment(Object& object);
  StackId to_stack(Object& object);
  StackId stack_of(const Value& value) const;
  bool append_event(Object& list, const Value& value);
  void note_after(std::size_t trace, const TraceEvent& event);
  bool all_of(const Object& object, Type type) const;
  void read_settings(const Value& value, AllocatorSettings& out);

  ReadLimits limits_;
  Snapshot snapshot_;
  std::unordered_map<std::string_view, StringId> string_index_;
  std::vector<std::unique_ptr<char[]>> string_bytes_;
  std::vector<Object> objects_;
  std::vector<std::vector<Value>> items_;
  std::vector<std::uint32_t> unused_items_;
  std::size_t held_items_ = 0;
  std::size_t held_text_ = 0;
  std::size_t held_stacks_ = 0;
  std::size_t held_events_ = 0;
  std::uint64_t events_ = 0;

  std::vector<StackFrame> frames_;
  std::vector<StackFrame> scratch_;  ///< to_stack's
  std::unordered_multimap<std::uint64_t, StackId> stack_index_;
  std::vector<TraceEvent> waiting_events_;  ///< turned, not yet in their trace
  struct Addresses {
    std::unordered_set<std::uint64_t> blocks, segments;
  };
  std::vector<Addresses> seen_after_;  ///< by trace: whose first event past the range is noted
  std::vector<SnapshotBlock> blocks_;
};

}  // namespace whatfits::snapshot
