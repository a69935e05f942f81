// Arithmetic that stops at 2^64 - 1 instead of wrapping, so that an absurd config reads as absurd.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>

namespace whatfits::saturating {

inline constexpr std::uint64_t kMax = std::numeric_limits<std::uint64_t>::max();

constexpr std::uint64_t add(std::uint64_t a, std::uint64_t b) { return a > kMax - b ? kMax : a + b; }
constexpr std::uint64_t subtract(std::uint64_t a, std::uint64_t b) { return a < b ? 0 : a - b; }
constexpr std::uint64_t multiply(std::uint64_t a, std::uint64_t b) { return b != 0 && a > kMax / b ? kMax : a * b; }

constexpr std::uint64_t product(std::initializer_list<std::uint64_t> factors) {
  // A zero wins over saturation: 2^40 · 2^40 · 0 is 0.
  for (std::uint64_t factor : factors)
    if (factor == 0) return 0;
  std::uint64_t result = 1;
  for (std::uint64_t factor : factors) result = multiply(result, factor);
  return result;
}

/// floor(a · numerator / denominator) without the wide product; the two must multiply within 64 bits, denominator > 0.
constexpr std::uint64_t scale(std::uint64_t a, std::uint64_t numerator, std::uint64_t denominator) {
  return add(multiply(a / denominator, numerator), a % denominator * numerator / denominator);
}

/// a / b to the nearest integer, halves up; 0 if b is 0.
constexpr std::uint64_t nearest(std::uint64_t a, std::uint64_t b) {
  if (b == 0) return 0;
  return a / b + (a % b >= b - b / 2 ? 1 : 0);
}

/// Dimensions are signed where a request is read; a validated one is positive.
constexpr std::uint64_t dimension(std::int64_t n) { return n < 0 ? 0 : static_cast<std::uint64_t>(n); }

/// The largest n with base + n · each <= limit, as a batch; 0 if there is none or nothing grows.
constexpr std::int64_t largest(std::uint64_t limit, std::uint64_t base, std::uint64_t each) {
  if (limit < base || each == 0) return 0;
  const std::uint64_t n = (limit - base) / each;
  constexpr std::uint64_t most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  return static_cast<std::int64_t>(n < most ? n : most);
}

}  // namespace whatfits::saturating
