#include "store.h"

#include <algorithm>
#include <limits>

namespace whatfits::snapshot {

namespace {

/// Words of the file that mean something to us, in the order of their StringId.
namespace Word {
enum : StringId {
  none,
  action,
  addr,
  size,
  stream,
  time_us,
  frames,
  device_free,
  name,
  filename,
  line,
  address,
  requested_size,
  state,
  blocks,
  total_size,
  device,
  segment_type,
  is_expandable,
  segments,
  device_traces,
  allocator_settings,
  max_split_size,
  roundup_power2_divisions,
  small,
  inactive,
  active_allocated,
  first_action
};
}
constexpr const char* kWords[] = {"",
                                  "action",
                                  "addr",
                                  "size",
                                  "stream",
                                  "time_us",
                                  "frames",
                                  "device_free",
                                  "name",
                                  "filename",
                                  "line",
                                  "address",
                                  "requested_size",
                                  "state",
                                  "blocks",
                                  "total_size",
                                  "device",
                                  "segment_type",
                                  "is_expandable",
                                  "segments",
                                  "device_traces",
                                  "allocator_settings",
                                  "max_split_size",
                                  "roundup_power2_divisions",
                                  "small",
                                  "inactive",
                                  "active_allocated"};
constexpr const char* kActions[] = {
    "alloc", "free_requested", "free_completed", "segment_alloc", "segment_free", "segment_map", "segment_unmap", "snapshot", "oom"};

std::uint64_t number(const Value& value) {
  return value.kind == Value::Kind::integer || value.kind == Value::Kind::boolean ? value.bits : 0;
}

bool is_text(const Value& value, StringId id) { return value.kind == Value::Kind::text && value.bits == id; }

}  // namespace

std::string_view name_of(Action action) {
  return action == Action::other ? "other" : action == Action::out_of_memory ? "oom" : kActions[static_cast<int>(action)];
}

Store::Store(const ReadLimits& limits) : limits_(limits) {
  snapshot_.strings.clear();
  for (const char* word : kWords) text(word);
  for (const char* word : kActions) text(word);
}

Value Store::text(std::string_view text) {
  const auto found = string_index_.find(text);
  if (found != string_index_.end()) return {Value::Kind::text, found->second};
  const auto id = static_cast<StringId>(snapshot_.strings.size());
  // The index looks at bytes of its own: the strings themselves move when their list grows.
  auto bytes = std::make_unique<char[]>(text.size() + 1);
  std::copy(text.begin(), text.end(), bytes.get());
  string_index_.emplace(std::string_view(bytes.get(), text.size()), id);
  string_bytes_.push_back(std::move(bytes));
  snapshot_.strings.emplace_back(text);
  held_text_ += 2 * text.size() + 128;
  return {Value::Kind::text, id};
}

Value Store::container(Type type) {
  std::uint32_t index = 0;
  if (unused_items_.empty()) {
    index = static_cast<std::uint32_t>(items_.size());
    items_.emplace_back();
  } else {
    index = unused_items_.back();
    unused_items_.pop_back();
  }
  objects_.push_back({type, index});
  return {Value::Kind::object, objects_.size() - 1};
}

bool Store::extend(const Value& container, const Value* values, std::size_t count) {
  if (container.kind != Value::Kind::object) return false;
  for (std::size_t i = 0; i < count; ++i) {
    take_in(values[i]);
    Object& object = object_of(container);
    if (append_event(object, values[i])) continue;
    if (object.type != Type::list && object.type != Type::tuple && object.type != Type::set) return false;
    items(object).push_back(values[i]);
    ++held_items_;
  }
  return true;
}

bool Store::set(const Value& dict, const Value* pairs, std::size_t count) {
  if (dict.kind != Value::Kind::object || object_of(dict).type != Type::dict || count % 2 != 0) return false;
  for (std::size_t i = 1; i < count; i += 2) {
    const Value& value = pairs[i];
    if (value.kind != Value::Kind::object) continue;
    take_in(value);
    Object& list = object_of(value);
    if (is_text(pairs[i - 1], Word::frames) && list.type == Type::list && all_of(list, Type::frame))
      become(list, Type::stack, to_stack(list));
  }
  if (object_of(dict).type != Type::dict) return false;  // it contained itself
  auto& list = items(object_of(dict));
  list.insert(list.end(), pairs, pairs + count);
  held_items_ += count;
  return true;
}

/// A container takes the value in: it is whole now.
void Store::take_in(const Value& value) {
  if (value.kind != Value::Kind::object) return;
  Object& object = object_of(value);
  if (object.type != Type::dict) return;
  if (!to_event(object) && !to_frame(object) && !to_segment(object)) to_block(object);
}

void Store::become(Object& object, Type type, std::size_t index) {
  auto& list = items(object);
  held_items_ -= list.size();
  list.clear();
  if (list.capacity() > 64) list.shrink_to_fit();
  unused_items_.push_back(object.index);
  object = {type, static_cast<std::uint32_t>(index)};
}

bool Store::all_of(const Object& object, Type type) const {
  const auto& list = items_[object.index];
  return std::all_of(list.begin(), list.end(), [&](const Value& v) { return v.kind == Value::Kind::object && object_of(v).type == type; });
}

bool Store::to_frame(Object& object) {
  StackFrame frame;
  bool has_file = false;
  bool has_line = false;
  const auto& pairs = items(object);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i].kind != Value::Kind::text) continue;
    const Value& value = pairs[i + 1];
    if (pairs[i].bits == Word::name && value.kind == Value::Kind::text) frame.function = static_cast<StringId>(value.bits);
    if (pairs[i].bits == Word::filename && value.kind == Value::Kind::text) {
      frame.file = static_cast<StringId>(value.bits);
      has_file = true;
    }
    if (pairs[i].bits == Word::line) {
      frame.line = static_cast<std::uint32_t>(number(value));
      has_line = true;
    }
  }
  if (!has_file || !has_line) return false;
  frames_.push_back(frame);
  become(object, Type::frame, frames_.size() - 1);
  return true;
}

StackId Store::to_stack(Object& object) {
  std::vector<StackFrame>& stack = scratch_;
  stack.clear();
  std::uint64_t hash = 0;
  for (const Value& value : items(object)) {
    const StackFrame& frame = frames_[object_of(value).index];
    stack.push_back(frame);
    hash = (hash ^ frame.function) * 0x9e3779b97f4a7c15;
    hash = (hash ^ frame.file) * 0x9e3779b97f4a7c15;
    hash = (hash ^ frame.line) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 29;
  }
  if (stack.empty()) return kNoStack;
  const auto [first, last] = stack_index_.equal_range(hash);
  for (auto at = first; at != last; ++at) {
    if (snapshot_.stacks[at->second] == stack) return at->second;
  }
  const auto id = static_cast<StackId>(snapshot_.stacks.size());
  held_stacks_ += stack.size() * sizeof(StackFrame) + 64;
  snapshot_.stacks.push_back(stack);
  stack_index_.emplace(hash, id);
  return id;
}

StackId Store::stack_of(const Value& value) const {
  if (value.kind != Value::Kind::object) return kNoStack;
  const Object& object = object_of(value);
  return object.type == Type::stack ? object.index : kNoStack;
}

bool Store::to_event(Object& object) {
  TraceEvent event;
  bool is_event = false;
  const auto& pairs = items(object);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i].kind != Value::Kind::text) continue;
    const Value& value = pairs[i + 1];
    switch (pairs[i].bits) {
      case Word::action:
        is_event = value.kind == Value::Kind::text;
        if (value.bits >= Word::first_action && value.bits < Word::first_action + std::size(kActions))
          event.action = static_cast<Action>(value.bits - Word::first_action);
        break;
      case Word::addr:
      case Word::device_free:
        event.address = number(value);
        break;
      case Word::size:
        event.size = number(value);
        break;
      case Word::stream:
        event.stream = value.bits;
        break;
      case Word::time_us:
        event.time_us = static_cast<std::int64_t>(value.bits);
        break;
      case Word::frames:
        event.stack = stack_of(value);
        break;
      default:
        break;
    }
  }
  if (!is_event) return false;
  waiting_events_.push_back(event);
  become(object, Type::event, waiting_events_.size() - 1);
  return true;
}

/// Events of a list go to the device's trace; the list itself then only stands for it.
bool Store::append_event(Object& list, const Value& value) {
  if (value.kind != Value::Kind::object || object_of(value).type != Type::event) return false;
  if (list.type == Type::list && items(list).empty()) {
    snapshot_.traces.emplace_back();
    snapshot_.after.emplace_back();
    snapshot_.events_seen.push_back(0);
    seen_after_.emplace_back();
    become(list, Type::trace, snapshot_.traces.size() - 1);
  }
  if (list.type != Type::trace) return false;
  const std::uint32_t waiting = object_of(value).index;
  std::uint64_t& seen = snapshot_.events_seen[list.index];
  if (waiting < waiting_events_.size()) {
    if (seen >= limits_.first_event && seen <= limits_.last_event) {
      snapshot_.traces[list.index].push_back(waiting_events_[waiting]);
      held_events_ += sizeof(TraceEvent);
    } else if (seen > limits_.last_event) {
      note_after(list.index, waiting_events_[waiting]);
    }
    ++seen;
    ++events_;
    if (waiting + 1 == waiting_events_.size()) waiting_events_.clear();  // a batch's last: the next batch starts anew
  }
  return true;
}

/// The first event of an address tells what was there when the range ended.
void Store::note_after(std::size_t trace, const TraceEvent& event) {
  Addresses& seen = seen_after_[trace];
  bool fresh = false;
  switch (event.action) {
    case Action::alloc:
    case Action::free_requested:
      fresh = seen.blocks.insert(event.address).second;
      break;
    case Action::segment_alloc:
    case Action::segment_free:
    case Action::segment_map:
    case Action::segment_unmap:
      fresh = seen.segments.insert(event.address).second;
      break;
    default:
      break;
  }
  if (!fresh) return;
  snapshot_.after[trace].push_back(event);
  held_events_ += sizeof(TraceEvent) + 4 * sizeof(std::uint64_t);  // the set's node too
}

bool Store::to_block(Object& object) {
  SnapshotBlock block;
  bool has_state = false;
  bool has_size = false;
  const auto& pairs = items(object);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i].kind != Value::Kind::text) continue;
    const Value& value = pairs[i + 1];
    switch (pairs[i].bits) {
      case Word::address:
        block.address = number(value);
        break;
      case Word::size:
        block.size = number(value);
        has_size = true;
        break;
      case Word::requested_size:
        block.requested = number(value);
        break;
      case Word::state:
        has_state = value.kind == Value::Kind::text;
        block.state = is_text(value, Word::active_allocated) ? SnapshotBlock::State::active_allocated
                      : is_text(value, Word::inactive)       ? SnapshotBlock::State::inactive
                                                             : SnapshotBlock::State::active_awaiting_free;
        break;
      case Word::frames:
        block.stack = stack_of(value);
        break;
      default:
        break;
    }
  }
  if (!has_state || !has_size) return false;
  blocks_.push_back(block);
  become(object, Type::block, blocks_.size() - 1);
  return true;
}

bool Store::to_segment(Object& object) {
  SnapshotSegment segment;
  bool has_blocks = false;
  bool has_size = false;
  const auto& pairs = items(object);
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (pairs[i].kind != Value::Kind::text) continue;
    const Value& value = pairs[i + 1];
    switch (pairs[i].bits) {
      case Word::address:
        segment.address = number(value);
        break;
      case Word::total_size:
        segment.size = number(value);
        has_size = true;
        break;
      case Word::stream:
        segment.stream = value.bits;
        break;
      case Word::device:
        segment.device = static_cast<int>(number(value) & 0xffff);
        break;
      case Word::segment_type:
        segment.small = is_text(value, Word::small);
        break;
      case Word::is_expandable:
        segment.expandable = number(value) != 0;
        break;
      case Word::blocks: {
        if (value.kind != Value::Kind::object) break;
        const Object& list = object_of(value);
        if (list.type != Type::list || !all_of(list, Type::block)) break;
        has_blocks = true;
        Bytes sizes = 0;
        for (const Value& block : items_[list.index]) {
          SnapshotBlock b = blocks_[object_of(block).index];
          if (b.address == 0) b.address = segment.address + sizes;  // written from PyTorch 2.1 on; before, blocks lie side by side
          sizes += b.size;
          segment.blocks.push_back(b);
        }
        break;
      }
      default:
        break;
    }
  }
  if (!has_blocks || !has_size) return false;
  snapshot_.segments.push_back(std::move(segment));
  become(object, Type::segment, snapshot_.segments.size() - 1);
  return true;
}

std::size_t Store::held() const {
  return held_text_ + held_stacks_ + held_items_ * sizeof(Value) + objects_.size() * sizeof(Object) +
         items_.size() * sizeof(std::vector<Value>) + frames_.size() * sizeof(StackFrame) + blocks_.size() * 2 * sizeof(SnapshotBlock) +
         waiting_events_.size() * sizeof(TraceEvent) + held_events_;
}

void Store::read_settings(const Value& value, AllocatorSettings& out) {
  if (value.kind != Value::Kind::object || object_of(value).type != Type::dict) return;
  const auto& pairs = items(object_of(value));
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    const Value& setting = pairs[i + 1];
    if (is_text(pairs[i], Word::max_split_size) && setting.kind == Value::Kind::integer) out.max_split = setting.bits;
    if (!is_text(pairs[i], Word::roundup_power2_divisions) || setting.kind != Value::Kind::object) continue;
    if (object_of(setting).type != Type::dict) continue;
    const auto& intervals = items(object_of(setting));  // "1", "2", "4", … MiB
    for (std::size_t k = 0; k + 1 < intervals.size(); k += 2) {
      const Bytes divisions = intervals[k + 1].bits;
      if (intervals[k].kind != Value::Kind::text || intervals[k + 1].kind != Value::Kind::integer) continue;
      if (divisions == 0 || divisions > 64 || (divisions & (divisions - 1)) != 0) continue;  // as PyTorch allows
      const std::string& from = snapshot_.strings[static_cast<StringId>(intervals[k].bits)];
      for (std::size_t at = 0; at < out.divisions.size(); ++at) {
        if (from == std::to_string(Bytes{1} << at)) out.divisions[at] = divisions;
      }
    }
  }
}

std::optional<std::string> Store::finish(const Value& root, Snapshot& out) {
  constexpr const char* kNotOne = "this is a pickle, but not a memory snapshot: a dictionary with segments and device_traces is expected";
  if (root.kind != Value::Kind::object) return kNotOne;
  const Object& top = object_of(root);
  if (top.type == Type::list && all_of(top, Type::segment) && !items_[top.index].empty()) {
    out = std::move(snapshot_);  // torch.cuda.memory_snapshot(): segments alone
    return std::nullopt;
  }
  if (top.type != Type::dict) return kNotOne;
  const Value* traces = nullptr;
  const Value* settings = nullptr;
  bool has_segments = false;
  const auto& pairs = items_[top.index];
  for (std::size_t i = 0; i + 1 < pairs.size(); i += 2) {
    if (is_text(pairs[i], Word::segments)) has_segments = true;
    if (is_text(pairs[i], Word::device_traces)) traces = &pairs[i + 1];
    if (is_text(pairs[i], Word::allocator_settings)) settings = &pairs[i + 1];
  }
  if (!has_segments) return kNotOne;
  // The traces in the order of the devices; a device without events has an empty list.
  std::vector<std::vector<TraceEvent>> by_device;
  std::vector<std::vector<TraceEvent>> after;
  std::vector<std::uint64_t> seen;
  if (traces != nullptr && traces->kind == Value::Kind::object && object_of(*traces).type == Type::list) {
    for (const Value& value : items_[object_of(*traces).index]) {
      const bool is_trace = value.kind == Value::Kind::object && object_of(value).type == Type::trace;
      const std::uint32_t at = is_trace ? object_of(value).index : 0;
      by_device.push_back(is_trace ? std::move(snapshot_.traces[at]) : std::vector<TraceEvent>{});
      after.push_back(is_trace ? std::move(snapshot_.after[at]) : std::vector<TraceEvent>{});
      seen.push_back(is_trace ? snapshot_.events_seen[at] : 0);
    }
  }
  snapshot_.traces = std::move(by_device);
  snapshot_.after = std::move(after);
  snapshot_.events_seen = std::move(seen);
  if (settings != nullptr) read_settings(*settings, snapshot_.settings);
  out = std::move(snapshot_);
  return std::nullopt;
}

}  // namespace whatfits::snapshot
