// Answers in numbers, as JavaScript reads them from the module's memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <vector>

#include "whatfits/bytes.h"

namespace whatfits::wasm {

/// An answer as numbers: `words` holds arrays one behind another, in the order that each function states, each aligned to its
/// element (the longest elements come first).
struct Arrays {
  std::size_t count = 0;  ///< elements of each array
  std::vector<std::uint64_t> words;
  const void* data() const { return words.data(); }
};

/// Writes arrays one behind another. Bytes become doubles: exact to 2^53, past every card.
class ArrayWriter {
 public:
  ArrayWriter(Arrays& arrays, std::size_t bytes) : arrays_(arrays) { arrays_.words.assign((bytes + 7) / 8, 0); }

  template <typename T>
  void add(T value) {
    std::memcpy(reinterpret_cast<unsigned char*>(arrays_.words.data()) + used_, &value, sizeof value);
    used_ += sizeof value;
  }
  void number(Bytes value) { add(static_cast<double>(value)); }

 private:
  Arrays& arrays_;
  std::size_t used_ = 0;
};

}  // namespace whatfits::wasm
