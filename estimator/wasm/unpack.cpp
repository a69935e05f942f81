// A WebAssembly module of its own that unpacks LZMA: the script that carries the calculator is a fifth smaller than with gzip, and
// this is at full speed from its first call, which JavaScript is not. The format is the .lzma file's (its author's specification,
// public domain) with the properties that web/pack.mjs packs with: lc 1, lp 0, pb 0, the size known.
#include <cstddef>
#include <cstdint>

#include "packed.h"

extern "C" unsigned char __heap_base;  // NOLINT(bugprone-reserved-identifier): the linker's name

namespace {

constexpr std::uint32_t kStates = 12;
constexpr std::uint32_t kLengths = 2 + 8 + 8 + 256;

// Chances that a bit is 0, in 2048ths.
using Chance = std::uint16_t;
struct Chances {
  Chance match[kStates];
  Chance repeat[kStates];
  Chance repeat0[kStates];
  Chance repeat1[kStates];
  Chance repeat2[kStates];
  Chance repeat0_long[kStates];
  Chance slots[4][64];
  Chance near[128];
  Chance align[16];
  Chance match_length[kLengths];
  Chance repeat_length[kLengths];
  Chance literals[2][0x300];
};
Chances chances;

const std::uint8_t* in;
std::uint32_t range;
std::uint32_t code;

void refill() {
  if (range >= 1u << 24) return;
  range <<= 8;
  code = code << 8 | *in++;
}

std::uint32_t bit(Chance& chance) {
  const std::uint32_t bound = (range >> 11) * chance;
  const bool one = code >= bound;
  if (one) {
    range -= bound;
    code -= bound;
    chance = static_cast<Chance>(chance - (chance >> 5));
  } else {
    range = bound;
    chance = static_cast<Chance>(chance + ((2048 - chance) >> 5));
  }
  refill();
  return one ? 1 : 0;
}

std::uint32_t tree(Chance* base, int bits) {
  std::uint32_t node = 1;
  for (int i = 0; i < bits; ++i) node = node << 1 | bit(base[node]);
  return node - (1u << bits);
}

std::uint32_t reverse_tree(Chance* base, int bits) {
  std::uint32_t node = 1;
  std::uint32_t value = 0;
  for (int i = 0; i < bits; ++i) {
    const std::uint32_t b = bit(base[node]);
    node = node << 1 | b;
    value |= b << i;
  }
  return value;
}

std::uint32_t direct(int bits) {
  std::uint32_t value = 0;
  for (int i = 0; i < bits; ++i) {
    range >>= 1;
    const bool one = code >= range;
    if (one) code -= range;
    value = value << 1 | (one ? 1 : 0);
    refill();
  }
  return value;
}

std::uint32_t length_from(Chance* base) {
  if (bit(base[0]) == 0) return 2 + tree(base + 2, 3);
  if (bit(base[1]) == 0) return 10 + tree(base + 10, 3);
  return 18 + tree(base + 18, 8);
}

std::uint32_t distance_after(std::uint32_t length) {
  const std::uint32_t slot = tree(chances.slots[length < 5 ? length - 2 : 3], 6);
  if (slot < 4) return slot;
  const int bits = static_cast<int>(slot >> 1) - 1;
  const std::uint32_t high = (2 | (slot & 1)) << bits;
  if (slot < 14) return high + reverse_tree(chances.near + high - slot, bits);
  return high + (direct(bits - 4) << 4) + reverse_tree(chances.align, 4);
}

/// One byte that no match gives. After a match the byte that would have gone on says what this one is not.
std::uint8_t literal(std::uint8_t before, bool matched, std::uint32_t other) {
  Chance* const base = chances.literals[before >> 7];
  std::uint32_t symbol = 1;
  while (matched && symbol < 0x100) {
    const std::uint32_t expected = other >> 7 & 1;
    other <<= 1;
    const std::uint32_t b = bit(base[((1 + expected) << 8) + symbol]);
    symbol = symbol << 1 | b;
    if (b != expected) matched = false;
  }
  while (symbol < 0x100) symbol = symbol << 1 | bit(base[symbol]);
  return static_cast<std::uint8_t>(symbol);
}

}  // namespace

/// Where the caller may put the packed bytes, and behind them what comes out; memory is the caller's to grow.
WF_EXPORT(space) unsigned char* space() { return &__heap_base; }

/// `packed` is what follows the file's header of 13 bytes; `out` takes `size` bytes. The same input gives the same output, always;
/// a damaged one gives some other, of the same size.
WF_EXPORT(unpack) void unpack(const std::uint8_t* packed, std::uint8_t* out, std::uint32_t size) {
  in = packed + 1;
  range = 0xFFFFFFFF;
  code = 0;
  for (int i = 0; i < 4; ++i) code = code << 8 | *in++;
  auto* const all = reinterpret_cast<Chance*>(&chances);
  for (std::size_t i = 0; i < sizeof chances / sizeof(Chance); ++i) all[i] = 1024;

  std::uint32_t state = 0;
  std::uint32_t repeats[4] = {};
  std::uint32_t at = 0;
  while (at < size) {
    if (bit(chances.match[state]) == 0) {
      const bool matched = state >= 7;
      out[at] = literal(at > 0 ? out[at - 1] : 0, matched, matched ? out[at - repeats[0] - 1] : 0);
      ++at;
      state = state < 4 ? 0 : state < 10 ? state - 3 : state - 6;
      continue;
    }
    const bool after_literal = state < 7;
    std::uint32_t length = 1;
    if (bit(chances.repeat[state]) == 0) {
      repeats[3] = repeats[2];
      repeats[2] = repeats[1];
      repeats[1] = repeats[0];
      length = length_from(chances.match_length);
      repeats[0] = distance_after(length);
      state = after_literal ? 7 : 10;
    } else {
      bool one_byte = false;
      std::uint32_t which = 0;
      if (bit(chances.repeat0[state]) == 0) {
        one_byte = bit(chances.repeat0_long[state]) == 0;
      } else if (bit(chances.repeat1[state]) == 0) {
        which = 1;
      } else {
        which = 2 + bit(chances.repeat2[state]);
      }
      const std::uint32_t distance = repeats[which];
      for (; which > 0; --which) repeats[which] = repeats[which - 1];
      repeats[0] = distance;
      if (!one_byte) length = length_from(chances.repeat_length);
      state = one_byte ? (after_literal ? 9 : 11) : after_literal ? 8 : 11;
    }
    if (repeats[0] >= at) return;
    for (; length > 0 && at < size; --length, ++at) out[at] = out[at - repeats[0] - 1];
  }
}
