#include "small_libc.h"

#include <array>
#include <cstdint>
#include <limits>

namespace whatfits::wasm {

namespace {

/// A natural number, base 2^32, least digit first. Long enough for 801 digits times 10^330.
class Natural {
 public:
  explicit Natural(std::uint32_t value) { words_[0] = value; }

  void multiply_add(std::uint32_t factor, std::uint32_t term) {
    std::uint64_t carry = term;
    for (int i = 0; i < used_ || carry != 0; ++i) {
      carry += std::uint64_t{words_[i]} * factor;
      words_[i] = static_cast<std::uint32_t>(carry);
      carry >>= 32;
      if (i >= used_) used_ = i + 1;
    }
  }
  void double_it() { multiply_add(2, 0); }
  bool zero() const { return *this < Natural(1); }
  friend bool operator<(const Natural& a, const Natural& b) {
    for (int i = kWords - 1; i >= 0; --i) {
      if (a.words_[i] != b.words_[i]) return a.words_[i] < b.words_[i];
    }
    return false;
  }
  /// `b` at most this.
  void subtract(const Natural& b) {
    std::int64_t borrow = 0;
    for (int i = 0; i < used_; ++i) {
      borrow += std::int64_t{words_[i]} - std::int64_t{b.words_[i]};
      words_[i] = static_cast<std::uint32_t>(borrow);
      borrow >>= 32;
    }
  }

 private:
  static constexpr int kWords = 160;
  std::uint32_t words_[kWords]{};
  int used_ = 1;
};

/// The double nearest to top / bottom, both over 0.
double nearest(Natural top, Natural bottom) {
  int exponent = 0;  // top / bottom * 2^exponent is the value; the fraction is brought into [1, 2)
  while (top < bottom) {
    top.double_it();
    --exponent;
  }
  for (Natural twice = bottom;; bottom = twice) {
    twice.double_it();
    if (top < twice) break;
    ++exponent;
  }
  constexpr int kLeast = -1022;
  constexpr int kMost = 1023;
  if (exponent > kMost) return std::numeric_limits<double>::infinity();
  int bits = 53;
  if (exponent < kLeast) bits -= kLeast - exponent;  // subnormal: fewer
  if (bits < 0) return 0;
  std::uint64_t digits = 0;
  for (int i = 0; i < bits; ++i) {
    digits *= 2;
    if (!(top < bottom)) {
      top.subtract(bottom);
      ++digits;
    }
    top.double_it();
  }
  // What is left, against half a last digit: top was doubled once more, so half is bottom.
  if (bottom < top || (!(top < bottom) && digits % 2 == 1)) ++digits;
  // A subnormal's bits are its digits; a normal number's first digit is implied, and a carry out of rounding moves the exponent.
  std::uint64_t pattern = digits;
  if (exponent >= kLeast) pattern += static_cast<std::uint64_t>(exponent - kLeast) << 52;
  double value = 0;
  static_assert(sizeof value == sizeof pattern);
  __builtin_memcpy(&value, &pattern, sizeof value);
  return value;
}

}  // namespace

double parse_double(const char* text, char** end) {
  const char* p = text;
  const bool negative = *p == '-';
  if (negative) ++p;
  constexpr int kDigits = 800;  // more cannot change the nearest double, but for being there at all
  Natural digits(0);
  std::uint64_t first = 0;  // of up to 15 digits: exact as a double
  int count = 0;
  int power = 0;
  bool more = false;
  bool fraction = false;
  const char* const start = p;
  for (;; ++p) {
    if (*p == '.' && !fraction) {
      fraction = true;
      continue;
    }
    if (*p < '0' || *p > '9') break;
    const auto digit = static_cast<std::uint32_t>(*p - '0');
    if (count == 0 && digit == 0) {
      power -= fraction ? 1 : 0;
    } else if (count < kDigits) {
      digits.multiply_add(10, digit);
      if (count < 15) first = first * 10 + digit;
      ++count;
      power -= fraction ? 1 : 0;
    } else {
      more = more || digit != 0;
      power += fraction ? 0 : 1;
    }
  }
  if (p == start) {
    if (end != nullptr) *end = const_cast<char*>(text);
    return 0;
  }
  if (*p == 'e' || *p == 'E') {
    const char* q = p + 1;
    const bool down = *q == '-';
    if (*q == '-' || *q == '+') ++q;
    int exponent = 0;
    const bool any = *q >= '0' && *q <= '9';
    for (; *q >= '0' && *q <= '9'; ++q) {
      if (exponent < 1000000) exponent = exponent * 10 + (*q - '0');
    }
    if (any) {
      p = q;
      power += down ? -exponent : exponent;
    }
  }
  if (end != nullptr) *end = const_cast<char*>(p);

  double value = 0;
  constexpr std::array<double, 23> kTens{1e0,  1e1,  1e2,  1e3,  1e4,  1e5,  1e6,  1e7,  1e8,  1e9,  1e10, 1e11,
                                         1e12, 1e13, 1e14, 1e15, 1e16, 1e17, 1e18, 1e19, 1e20, 1e21, 1e22};
  if (count == 0 || count + power < -330) {
    value = 0;
  } else if (count + power > 310) {
    value = std::numeric_limits<double>::infinity();
  } else if (count <= 15 && power <= 22 && power >= -22) {
    const auto exact = static_cast<double>(first);
    value = power < 0 ? exact / kTens[static_cast<std::size_t>(-power)] : exact * kTens[static_cast<std::size_t>(power)];
  } else {
    if (more) {
      digits.multiply_add(10, 1);
      --power;
    }
    Natural bottom(1);
    for (; power < 0; ++power) bottom.multiply_add(10, 0);
    for (; power > 0; --power) digits.multiply_add(10, 0);
    value = nearest(digits, bottom);
  }
  return negative ? -value : value;
}

}  // namespace whatfits::wasm

#ifdef __EMSCRIPTEN__
#include <cstdarg>
#include <cstddef>

// All three of the C library's file, or the linker takes that file for the others and finds strtod twice.
extern "C" double strtod(const char* text, char** end) { return whatfits::wasm::parse_double(text, end); }
extern "C" float strtof(const char* text, char** end) { return static_cast<float>(whatfits::wasm::parse_double(text, end)); }
extern "C" long double strtold(const char* text, char** end) { return whatfits::wasm::parse_double(text, end); }

// "\\u%04x" and its kin: text, and numbers as hex digits of a stated width. Nothing else is printed.
extern "C" int snprintf(char* out, std::size_t size, const char* format, ...) {
  std::va_list arguments;
  va_start(arguments, format);
  std::size_t used = 0;
  const auto put = [&](char c) {
    if (used + 1 < size) out[used++] = c;
  };
  for (; *format != '\0'; ++format) {
    if (*format != '%') {
      put(*format);
      continue;
    }
    int width = 0;
    for (++format; *format != 'x' && *format != 'X' && *format != '\0'; ++format) {
      if (*format >= '1' && *format <= '8') width = *format - '0';
    }
    const unsigned value = va_arg(arguments, unsigned);
    for (int i = width - 1; i >= 0; --i) put((*format == 'x' ? "0123456789abcdef" : "0123456789ABCDEF")[value >> (4 * i) & 15]);
    if (*format == '\0') break;
  }
  va_end(arguments);
  if (size != 0) out[used] = '\0';
  return static_cast<int>(used);
}
#endif
