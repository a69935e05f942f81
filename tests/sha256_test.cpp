// SHA-256 against the vectors of FIPS 180-4 and of NIST's example values (csrc.nist.gov, "SHA256.pdf"); the others are what
// coreutils' sha256sum prints.
#include "program/sha256.h"

#include <catch2/catch_test_macros.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>

namespace whatfits {
namespace {

std::string sha256(std::string_view text) {
  Sha256 hash;
  hash.add(text);
  return hash.hex();
}

TEST_CASE("SHA-256 of the standard's messages", "[sha256]") {
  CHECK(sha256("") == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc") == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq") ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  CHECK(sha256(std::string(1000000, 'a')) == "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST_CASE("SHA-256 around the ends of its blocks of 64 bytes", "[sha256]") {
  CHECK(sha256(std::string(55, 'x')) == "d5e285683cd4efc02d021a5c62014694958901005d6f71e89e0989fac77e4072");
  CHECK(sha256(std::string(56, 'x')) == "04c26261370ee7541549d16dee320c723e3fd14671e66a099afe0a377c16888e");
  CHECK(sha256(std::string(63, 'x')) == "75220b47218278e656f2013bb8f0c455a25eaf01e86c64924e9d48d89776d6f2");
  CHECK(sha256(std::string(64, 'x')) == "7ce100971f64e7001e8fe5a51973ecdfe1ced42befe7ee8d5fd6219506b5393c");
  CHECK(sha256(std::string(65, 'x')) == "9537c5fdf120482f7d58d25e9ed583f52c02b4e304ea814db1633ad565aed7e9");
}

TEST_CASE("SHA-256 does not depend on how the message is cut", "[sha256]") {
  const std::string text(300, 'q');
  for (std::size_t piece = 1; piece <= 130; ++piece) {
    Sha256 hash;
    for (std::size_t at = 0; at < text.size(); at += piece) hash.add(std::string_view(text).substr(at, piece));
    CHECK(hash.hex() == sha256(text));
  }
}

TEST_CASE("numbers are hashed as decimal text and a space", "[sha256]") {
  Sha256 hash;
  hash.add('n');
  hash.number(0);
  hash.number(1024);
  hash.number(std::numeric_limits<std::uint64_t>::max());
  CHECK(hash.hex() == sha256("n0 1024 18446744073709551615 "));
}

}  // namespace
}  // namespace whatfits
