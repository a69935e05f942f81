// Sizes. Bytes everywhere in data; KiB, MiB, GiB only where a person reads.
#pragma once

#include <cstdint>

namespace whatfits {

/// Sizes in bytes. 64 bits on every target: size_t has 32 in WebAssembly and cannot hold an 80 GB card.
using Bytes = std::uint64_t;

inline constexpr Bytes KiB = Bytes{1} << 10;
inline constexpr Bytes MiB = Bytes{1} << 20;
inline constexpr Bytes GiB = Bytes{1} << 30;

/// The least multiple of `unit` that is at least `n`. `unit` > 0; `n + unit` must not overflow.
constexpr Bytes round_up(Bytes n, Bytes unit) { return (n + unit - 1) / unit * unit; }

}  // namespace whatfits
