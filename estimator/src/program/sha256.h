// SHA-256 (FIPS 180-4), for names of programs and traces that no two share.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace whatfits {

class Sha256 {
 public:
  void add(std::string_view bytes);
  void add(char c) { add(std::string_view(&c, 1)); }
  /// Adds it as decimal text and a space, so that the hashed form can be written and read by anyone.
  void number(std::uint64_t n);
  /// 64 hex digits; nothing may be added afterwards.
  std::string hex();

 private:
  void block(const unsigned char* p);
  std::array<std::uint32_t, 8> state_{0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a, 0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> buffer_{};
  std::size_t used_ = 0;
  std::uint64_t total_ = 0;
};

}  // namespace whatfits
