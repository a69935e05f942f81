#include "machine.h"

#include <algorithm>
#include <utility>

namespace whatfits::snapshot {

namespace {

constexpr std::size_t kLongestText = std::size_t{1} << 20;
constexpr std::size_t kDeepest = 64;  ///< marks that are open at once; a snapshot needs seven

std::uint64_t little_endian(const std::uint8_t* bytes, std::size_t count) {
  std::uint64_t n = 0;
  for (std::size_t i = 0; i < count; ++i) n |= static_cast<std::uint64_t>(bytes[i]) << (8 * i);
  return n;
}

std::string hex(std::uint8_t byte) {
  constexpr char kDigits[] = "0123456789abcdef";
  return {'0', 'x', kDigits[byte >> 4], kDigits[byte & 15]};
}

/// Two's complement of any length.
Value integer_of(const std::uint8_t* bytes, std::size_t count) {
  const bool negative = count > 0 && (bytes[count - 1] & 0x80) != 0;
  const std::uint8_t filler = negative ? 0xff : 0;
  while (count > 8 && bytes[count - 1] == filler) --count;
  if (count > 8) return {Value::Kind::too_large, 0};
  std::uint64_t n = little_endian(bytes, count);
  if (!negative) return {Value::Kind::integer, n};
  if (count < 8) n |= ~std::uint64_t{0} << (8 * count);
  if ((n >> 63) == 0) return {Value::Kind::too_large, 0};
  return {Value::Kind::negative, n};
}

}  // namespace

std::size_t SnapshotReader::Machine::fail(std::string message) {
  if (!error) error = ReadError{offset_, std::move(message)};
  return 0;
}

bool SnapshotReader::Machine::feed(const std::uint8_t* bytes, std::size_t size) {
  if (error) return false;
  const std::uint8_t* at = bytes;
  std::size_t left = size;
  if (!rest_.empty()) {
    rest_.insert(rest_.end(), bytes, bytes + size);
    at = rest_.data();
    left = rest_.size();
  }
  while (left > 0 && !error) {
    if (stopped_) {
      fail("bytes after the end of the pickle");
      break;
    }
    const std::size_t used = step(at, left);
    if (used == 0) break;
    at += used;
    left -= used;
    offset_ += used;
    if (++steps_ % 1024 == 0 && store_.held() + (memo_.size() + stack_.size()) * sizeof(Value) > memory_)
      fail("the snapshot needs more memory than the " + std::to_string(memory_ / MiB) + " MiB allowed");
  }
  std::vector<std::uint8_t> rest(at, at + left);
  rest_.swap(rest);
  return !error;
}

std::optional<Snapshot> SnapshotReader::Machine::finish() {
  if (!error && !stopped_) fail(offset_ == 0 ? "the file is empty or no pickle" : "the file ends before the pickle does");
  if (error) return std::nullopt;
  Snapshot snapshot;
  if (auto problem = store_.finish(stack_.back(), snapshot)) {
    fail(*problem);
    return std::nullopt;
  }
  return snapshot;
}

std::size_t SnapshotReader::Machine::text(const std::uint8_t* at, std::size_t size, int length_bytes) {
  const auto head = static_cast<std::size_t>(1 + length_bytes);
  if (size < head) return 0;
  const std::uint64_t length = little_endian(at + 1, static_cast<std::size_t>(length_bytes));
  if (length > kLongestText) return fail("a text of " + std::to_string(length) + " bytes: at most 1 MiB is read");
  if (size - head < length) return 0;
  push(store_.text({reinterpret_cast<const char*>(at + head), static_cast<std::size_t>(length)}));
  return head + static_cast<std::size_t>(length);
}

std::size_t SnapshotReader::Machine::integer(const std::uint8_t* at, std::size_t size, int length_bytes) {
  const auto head = static_cast<std::size_t>(1 + length_bytes);
  if (size < head) return 0;
  const std::uint64_t length = little_endian(at + 1, static_cast<std::size_t>(length_bytes));
  if (length > kLongestText) return fail("an integer of " + std::to_string(length) + " bytes: at most 1 MiB is read");
  if (size - head < length) return 0;
  push(integer_of(at + head, static_cast<std::size_t>(length)));
  return head + static_cast<std::size_t>(length);
}

std::size_t SnapshotReader::Machine::get(std::uint64_t index, std::size_t used) {
  if (index >= memo_.size()) return fail("asks for memo " + std::to_string(index) + ", and there are " + std::to_string(memo_.size()));
  push(memo_[static_cast<std::size_t>(index)]);
  return used;
}

std::size_t SnapshotReader::Machine::put(std::uint64_t index, std::size_t used) {
  if (!above_mark(1)) return fail("remembers a value that is not there");
  // Picklers count from 0 or 1 up. A jump would make room for what is never written.
  if (index > memo_.size() + 1) return fail("memo " + std::to_string(index) + " after " + std::to_string(memo_.size()));
  while (memo_.size() <= index) memo_.emplace_back();
  memo_[static_cast<std::size_t>(index)] = stack_.back();
  return used;
}

/// Everything above the last mark becomes one container.
std::size_t SnapshotReader::Machine::gather(Store::Type type) {
  if (marks_.empty()) return fail("closes what was not opened");
  const std::size_t from = marks_.back();
  const Value made = store_.container(type);
  const std::size_t count = stack_.size() - from;
  if (!(type == Store::Type::dict ? store_.set(made, stack_.data() + from, count) : store_.extend(made, stack_.data() + from, count)))
    return fail("a dictionary with a key and no value");
  marks_.pop_back();
  stack_.resize(from);
  push(made);
  return 1;
}

std::size_t SnapshotReader::Machine::fixed_tuple(std::size_t count) {
  if (!above_mark(count)) return fail("a tuple of values that are not there");
  const Value made = store_.container(Store::Type::tuple);
  if (!store_.extend(made, stack_.data() + stack_.size() - count, count)) return fail("a tuple that contains itself");
  stack_.resize(stack_.size() - count);
  push(made);
  return 1;
}

/// The container below the last mark takes in what is above it.
std::size_t SnapshotReader::Machine::take(bool pairs) {
  if (marks_.empty()) return fail("closes what was not opened");
  const std::size_t from = marks_.back();
  marks_.pop_back();
  if (!above_mark(1) || stack_.size() <= from - 1 || from == 0) return fail("fills a container that is not there");
  const std::size_t count = stack_.size() - from;
  const bool taken =
      pairs ? store_.set(stack_[from - 1], stack_.data() + from, count) : store_.extend(stack_[from - 1], stack_.data() + from, count);
  if (!taken) return fail(pairs ? "puts pairs into what is no dictionary" : "puts items into what is no list");
  stack_.resize(from);
  return 1;
}

std::size_t SnapshotReader::Machine::step(const std::uint8_t* at, std::size_t size) {
  const auto opcode = static_cast<Opcode>(at[0]);
  if (offset_ == 0) {
    if (opcode != Opcode::proto) return fail("no pickle of protocol 2 to 5 (torch.cuda.memory._dump_snapshot writes one)");
    if (size < 2) return 0;
    if (at[1] < 2 || at[1] > 5) return fail("pickle protocol " + std::to_string(at[1]) + ": must be 2 to 5");
    return 2;
  }
  if (const char* name = refused_name(opcode)) return fail(std::string(name) + " would run code or read elsewhere: only data is read");
  switch (opcode) {
    case Opcode::stop:
      if (!marks_.empty() || stack_.size() != 1) return fail("the pickle ends in the middle of a value");
      stopped_ = true;
      return 1;
    case Opcode::mark:
      if (marks_.size() == kDeepest) return fail("nested deeper than " + std::to_string(kDeepest) + " levels");
      marks_.push_back(stack_.size());
      return 1;
    case Opcode::pop:
      if (!above_mark(1)) {
        if (marks_.empty()) return fail("drops a value that is not there");
        marks_.pop_back();
        return 1;
      }
      stack_.pop_back();
      return 1;
    case Opcode::pop_mark:
      if (marks_.empty()) return fail("closes what was not opened");
      stack_.resize(marks_.back());
      marks_.pop_back();
      return 1;
    case Opcode::dup:
      if (!above_mark(1)) return fail("doubles a value that is not there");
      push(stack_.back());
      return 1;
    case Opcode::none:
      push({});
      return 1;
    case Opcode::newtrue:
    case Opcode::newfalse:
      push({Value::Kind::boolean, opcode == Opcode::newtrue ? 1U : 0U});
      return 1;
    case Opcode::binint:
      if (size < 5) return 0;
      push(integer_of(at + 1, 4));
      return 5;
    case Opcode::binint1:
      if (size < 2) return 0;
      push({Value::Kind::integer, at[1]});
      return 2;
    case Opcode::binint2:
      if (size < 3) return 0;
      push({Value::Kind::integer, little_endian(at + 1, 2)});
      return 3;
    case Opcode::binfloat:
      if (size < 9) return 0;
      push({Value::Kind::real, 0});
      return 9;
    case Opcode::long1:
      return integer(at, size, 1);
    case Opcode::long4:
      return integer(at, size, 4);
    case Opcode::short_binunicode:
    case Opcode::short_binstring:
    case Opcode::short_binbytes:
      return text(at, size, 1);
    case Opcode::binunicode:
    case Opcode::binstring:
    case Opcode::binbytes:
      return text(at, size, 4);
    case Opcode::binunicode8:
    case Opcode::binbytes8:
    case Opcode::bytearray8:
      return text(at, size, 8);
    case Opcode::binget:
      return size < 2 ? 0 : get(at[1], 2);
    case Opcode::long_binget:
      return size < 5 ? 0 : get(little_endian(at + 1, 4), 5);
    case Opcode::binput:
      return size < 2 ? 0 : put(at[1], 2);
    case Opcode::long_binput:
      return size < 5 ? 0 : put(little_endian(at + 1, 4), 5);
    case Opcode::memoize:
      return put(memo_.size(), 1);
    case Opcode::empty_list:
      push(store_.container(Store::Type::list));
      return 1;
    case Opcode::empty_dict:
      push(store_.container(Store::Type::dict));
      return 1;
    case Opcode::empty_set:
      push(store_.container(Store::Type::set));
      return 1;
    case Opcode::empty_tuple:
      push(store_.container(Store::Type::tuple));
      return 1;
    case Opcode::tuple1:
      return fixed_tuple(1);
    case Opcode::tuple2:
      return fixed_tuple(2);
    case Opcode::tuple3:
      return fixed_tuple(3);
    case Opcode::tuple:
      return gather(Store::Type::tuple);
    case Opcode::list:
      return gather(Store::Type::list);
    case Opcode::frozenset:
      return gather(Store::Type::set);
    case Opcode::dict:
      return gather(Store::Type::dict);
    case Opcode::append: {
      if (!above_mark(2)) return fail("appends a value that is not there");
      const Value item = stack_.back();
      stack_.pop_back();
      return store_.extend(stack_.back(), &item, 1) ? 1 : fail("puts items into what is no list");
    }
    case Opcode::setitem: {
      if (!above_mark(3)) return fail("sets a value that is not there");
      const Value pair[] = {stack_[stack_.size() - 2], stack_.back()};
      stack_.resize(stack_.size() - 2);
      return store_.set(stack_.back(), pair, 2) ? 1 : fail("puts pairs into what is no dictionary");
    }
    case Opcode::appends:
    case Opcode::additems:
      return take(false);
    case Opcode::setitems:
      return take(true);
    case Opcode::proto:
      return fail("a second PROTO");
    case Opcode::frame:
      return size < 9 ? 0 : 9;  // protocol 4's packets; they change nothing
    default:
      return fail("byte " + hex(at[0]) + " is no opcode of protocols 2 to 5");
  }
}

// ---- the reader --------------------------------------------------------------------------------------------------------------------

SnapshotReader::SnapshotReader(ReadLimits limits) : machine_(std::make_unique<Machine>(limits)) {}
SnapshotReader::~SnapshotReader() = default;
bool SnapshotReader::feed(const void* bytes, std::size_t size) { return machine_->feed(static_cast<const std::uint8_t*>(bytes), size); }
std::optional<Snapshot> SnapshotReader::finish() { return machine_->finish(); }
const std::optional<ReadError>& SnapshotReader::error() const { return machine_->error; }
std::uint64_t SnapshotReader::bytes_read() const { return machine_->offset(); }
std::uint64_t SnapshotReader::events_read() const { return machine_->events(); }

}  // namespace whatfits::snapshot
