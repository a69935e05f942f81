// Puts a WebAssembly module together again that web/pack.mjs took apart. What an instruction does, which local it names and where
// in memory it looks repeat each in a rhythm of its own; side by side in streams they pack a tenth smaller than in turn.
#include <cstddef>
#include <cstdint>

#include "packed.h"

namespace {

using Bytes = const std::uint8_t*;

// In web/pack.mjs too, and there alone it is said which module can be taken apart.
constexpr std::uint8_t kSameLocal = 0xE0;  // + 0 to 2: local.get, .set and .tee of the local named last
constexpr std::uint8_t kAligned = 0xFE;    // the next access to memory names an alignment that is not its natural one
constexpr std::uint8_t kCode = 10;

std::uint8_t* out;

void bytes(Bytes& from, std::uint32_t count) {
  for (; count > 0; --count) *out++ = *from++;
}

/// A number of the format (LEB128), copied as it is.
std::uint32_t number(Bytes& from) {
  std::uint32_t value = 0;
  int shift = 0;
  std::uint8_t byte = 0;
  do {
    byte = *out++ = *from++;
    value |= static_cast<std::uint32_t>(byte & 0x7F) << (shift & 31);
    shift += 7;
  } while (byte >= 0x80);
  return value;
}

/// log2 of the bytes that an access from 0x28 (i32.load) to 0x3E (i64.store32) touches, which is its natural alignment.
std::uint8_t natural(std::uint8_t op) {
  constexpr std::uint8_t of[] = {2, 3, 2, 3, 0, 0, 1, 1, 0, 0, 1, 1, 2, 2, 2, 3, 2, 3, 0, 1, 0, 1, 2};
  return of[op - 0x28];
}

struct Streams {
  Bytes ops;      ///< operators, and what follows them but for:
  Bytes locals;   ///< indices of locals
  Bytes offsets;  ///< of accesses to memory
  Bytes ints;     ///< i32.const
  Bytes rest;     ///< all but the functions' bodies
};

/// The operands of `op` that lie behind it among the operators.
void operands(std::uint8_t op, Bytes& ops) {
  std::uint32_t numbers = 0;
  switch (op) {
    case 0x02:
    case 0x03:
    case 0x04:
    case 0x0C:
    case 0x0D:
    case 0x10:
    case 0x23:
    case 0x24:
    case 0x3F:
    case 0x40:
    case 0x42:
      numbers = 1;
      break;
    case 0x11:
      numbers = 2;
      break;
    case 0x0E:
      numbers = number(ops) + 1;
      break;
    case 0x43:
      return bytes(ops, 4);
    case 0x44:
      return bytes(ops, 8);
    case 0xFC: {
      const std::uint32_t which = number(ops);
      numbers = which == 8 || which == 10 ? 2 : which == 9 || which == 11 ? 1 : 0;
      break;
    }
    default:
      break;
  }
  for (; numbers > 0; --numbers) number(ops);
}

void body(Streams& s) {
  for (std::uint32_t groups = number(s.ops); groups > 0; --groups) {
    number(s.ops);
    bytes(s.ops, 1);
  }
  Bytes last = nullptr;
  for (int depth = 1; depth > 0;) {
    std::uint8_t op = *s.ops++;
    if (op >= kSameLocal && op <= kSameLocal + 2) {
      *out++ = static_cast<std::uint8_t>(0x20 + op - kSameLocal);
      Bytes again = last;
      number(again);
      continue;
    }
    const bool aligned = op == kAligned;
    if (aligned) op = *s.ops++;
    *out++ = op;
    if (op >= 0x20 && op <= 0x22) {
      last = s.locals;
      number(s.locals);
    } else if (op >= 0x28 && op <= 0x3E) {
      if (aligned) {
        bytes(s.ops, 1);
      } else {
        *out++ = natural(op);
      }
      number(s.offsets);
    } else if (op == 0x41) {
      number(s.ints);
    } else {
      operands(op, s.ops);
      if (op >= 0x02 && op <= 0x04) ++depth;
      if (op == 0x0B) --depth;
    }
  }
}

/// A body with its size before it, which is known only after it.
void sized_body(Streams& s) {
  constexpr int room = 5;
  std::uint8_t* const start = out;
  out += room;
  body(s);
  std::uint32_t size = static_cast<std::uint32_t>(out - start) - room;
  Bytes from = start + room;
  out = start;
  for (std::uint32_t left = size;; left >>= 7) {
    *out++ = static_cast<std::uint8_t>(left < 0x80 ? left : (left & 0x7F) | 0x80);
    if (left < 0x80) break;
  }
  bytes(from, size);
}

}  // namespace

/// `parts`: the module's size, then the sizes of the five streams, each a 32-bit number, then the streams. `to` takes the module.
WF_EXPORT(join) void join(Bytes parts, std::uint8_t* to) {
  std::uint32_t sizes[6];
  __builtin_memcpy(sizes, parts, sizeof sizes);
  Bytes at = parts + sizeof sizes;
  Bytes begin[5];
  for (int i = 0; i < 5; ++i) {
    begin[i] = at;
    at += sizes[i + 1];
  }
  Streams s{begin[0], begin[1], begin[2], begin[3], begin[4]};
  out = to;
  std::uint8_t* const end = to + sizes[0];
  bytes(s.rest, 8);
  while (out < end) {
    const std::uint8_t id = *s.rest;
    bytes(s.rest, 1);
    const std::uint32_t size = number(s.rest);
    if (id != kCode) {
      bytes(s.rest, size);
      continue;
    }
    for (std::uint32_t bodies = number(s.rest); bodies > 0; --bodies) sized_body(s);
  }
}
