#include "text/units.h"

namespace whatfits::cli {
namespace {

// bytes / unit with `digits` decimals, half up. The quotient and the remainder apart: bytes * 100 could overflow.
std::string fixed(Bytes bytes, Bytes unit, int digits) {
  Bytes scale = 1;
  for (int i = 0; i < digits; ++i) scale *= 10;
  Bytes whole = bytes / unit;
  Bytes fraction = (bytes % unit * scale + unit / 2) / unit;
  if (fraction == scale) {
    ++whole;
    fraction = 0;
  }
  std::string tail = std::to_string(fraction);
  tail.insert(0, static_cast<std::size_t>(digits) - tail.size(), '0');
  return with_commas(whole) + "." + tail;
}

// A negative number's magnitude; INT64_MIN has one too.
std::uint64_t magnitude(std::int64_t number) {
  const auto bits = static_cast<std::uint64_t>(number);
  return number < 0 ? std::uint64_t{0} - bits : bits;
}

}  // namespace

std::string with_commas(std::uint64_t number) {
  std::string digits = std::to_string(number);
  for (std::size_t at = digits.size(); at > 3;) {
    at -= 3;
    digits.insert(at, ",");
  }
  return digits;
}

std::string with_commas(std::int64_t number) { return (number < 0 ? "-" : "") + with_commas(magnitude(number)); }

std::string mib(Bytes bytes) { return fixed(bytes, MiB, 1); }

std::string signed_mib(std::int64_t bytes) {
  const std::string text = mib(magnitude(bytes));
  return bytes < 0 && text != "0.0" ? "-" + text : text;
}

std::string gib(Bytes bytes) { return fixed(bytes, GiB, 2); }

std::string decimal_gb(Bytes bytes) { return fixed(bytes, 1'000'000'000, 2); }

std::string size_text(Bytes bytes) {
  if (bytes == 1) return "1 byte";
  if (bytes < KiB) return std::to_string(bytes) + " bytes";
  if (bytes < MiB) return fixed(bytes, KiB, 1) + " KiB";
  if (bytes < GiB) return mib(bytes) + " MiB";
  return gib(bytes) + " GiB";
}

std::string percent(Bytes part, Bytes whole) {
  if (whole == 0) return "0.0 %";
  // Tenths of a percent. Both are scaled down first where the product could overflow; a share needs no more digits.
  while (part > UINT64_MAX / 2000) {
    part /= 2;
    whole /= 2;
  }
  const Bytes tenths = (part * 1000 + whole / 2) / whole;
  return std::to_string(tenths / 10) + "." + std::to_string(tenths % 10) + " %";
}

}  // namespace whatfits::cli
