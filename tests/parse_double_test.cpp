// The module's own strtod against the C library's: same bits for whatever JSON can write.
#include <catch2/catch_test_macros.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <random>
#include <string>

#include "small_libc.h"

namespace {

std::uint64_t bits(double value) {
  std::uint64_t out = 0;
  std::memcpy(&out, &value, sizeof out);
  return out;
}

void same(const std::string& text) {
  char* ours = nullptr;
  char* theirs = nullptr;
  const double mine = whatfits::wasm::parse_double(text.c_str(), &ours);
  const double libc = std::strtod(text.c_str(), &theirs);
  if (bits(mine) != bits(libc) || ours != theirs) FAIL(text << ": " << mine << " is not " << libc);
}

TEST_CASE("numbers as the C library reads them") {
  for (const char* text : {"0",
                           "-0",
                           "0.0",
                           "-0.0e5",
                           "1",
                           "8.0",
                           "0.1",
                           "1e-5",
                           "0.3",
                           "1e22",
                           "1e23",
                           "9007199254740993",
                           "9007199254740992.5",
                           "9007199254740993.0000000000000000000000000000000001",
                           "1.7976931348623157e308",
                           "1.7976931348623158e308",
                           "1.7976931348623159e308",
                           "1e308",
                           "1e309",
                           "1e400",
                           "-1e400",
                           "4.9e-324",
                           "2.4703282292062327e-324",
                           "2.4703282292062328e-324",
                           "2.4e-324",
                           "1e-400",
                           "2.2250738585072014e-308",
                           "2.2250738585072011e-308",
                           "2.225073858507201e-308",
                           "1e1000000000",
                           "1e-1000000000",
                           "0e1000000000",
                           "0.00000000000000000000000000000000000000000000001e47",
                           "123456789012345678901234567890e-40",
                           "1e",
                           "1e+",
                           "x"}) {
    same(text);
  }
  same(std::string(400, '9'));
  same("0." + std::string(400, '0') + "1");
  same("1" + std::string(350, '0') + "e-340");
  same("9007199254740993." + std::string(900, '0') + "1");
  same(std::string(1000, '1') + "e-990");
  // Half of the least subnormal, its digits written out, then a digit more.
  same("2.4703282292062327208299694370362" + std::string(760, '4') + "e-324");
}

TEST_CASE("random numbers as the C library reads them") {
  std::mt19937_64 random(7);
  for (int i = 0; i < 20000; ++i) {
    const auto digits = [&](int most) {
      std::string text;
      for (int n = 1 + static_cast<int>(random() % static_cast<unsigned>(most)); n > 0; --n) text += static_cast<char>('0' + random() % 10);
      return text;
    };
    std::string text = digits(i % 10 == 0 ? 60 : 20);
    if (random() % 2 == 0) text += "." + digits(20);
    if (random() % 2 == 0) text += "e" + std::to_string(static_cast<int>(random() % 680) - 340);
    same(text);
  }
  for (int i = 0; i < 20000; ++i) {
    double value = 0;
    const std::uint64_t pattern = random() & 0x7fffffffffffffff;
    std::memcpy(&value, &pattern, sizeof value);
    if (!std::isfinite(value)) continue;
    char text[64];
    std::snprintf(text, sizeof text, "%.*e", 14 + static_cast<int>(random() % 6), value);
    same(text);
  }
}

}  // namespace
