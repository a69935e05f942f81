#include "allocator/virtual_source.h"

#include <catch2/catch_test_macros.hpp>

namespace whatfits {
namespace {

std::vector<std::uint64_t> state_of(const MemorySource& source) {
  std::vector<std::uint64_t> state;
  source.append_state(state);
  return state;
}

TEST_CASE("a piece of 32 MiB is filled upwards, the next one lies directly below", "[virtual source]") {
  VirtualSource source(GiB);
  const Address first = source.reserve(20 * MiB).value();
  CHECK(source.reserve(2 * MiB) == first + 20 * MiB);
  CHECK(source.reserve(20 * MiB) == first - 32 * MiB);
  CHECK(source.reserve(10 * MiB) == first - 12 * MiB);  // the lowest hole that fits, not the oldest
  CHECK(source.reserve(10 * MiB) == first + 22 * MiB);
  CHECK(source.reserve(40 * MiB) == first - 96 * MiB);
  CHECK(source.available() == GiB - 102 * MiB);
}

TEST_CASE("holes of one piece merge, holes of two pieces stay apart", "[virtual source]") {
  VirtualSource source(GiB);
  const Address upper = source.reserve(32 * MiB).value();
  const Address low = source.reserve(16 * MiB).value();
  const Address high = source.reserve(16 * MiB).value();
  REQUIRE(high + 16 * MiB == upper);

  source.release(low, 16 * MiB);
  source.release(upper, 32 * MiB);
  source.release(high, 16 * MiB);
  CHECK(source.available() == GiB);
  CHECK(source.reserve(64 * MiB) == low - 64 * MiB);  // the two pieces touch and are empty, yet do not hold it
  CHECK(source.reserve(32 * MiB) == low);
  CHECK(source.reserve(32 * MiB) == upper);
}

TEST_CASE("capacity counts in granules of 2 MiB, whatever its address", "[virtual source]") {
  VirtualSource source(5 * MiB);
  CHECK_FALSE(source.reserve(6 * MiB));
  CHECK_FALSE(source.reserve(5 * MiB));
  const Address address = source.reserve(3 * MiB).value();
  CHECK(source.available() == MiB);
  CHECK_FALSE(source.reserve(1));
  source.release(address, 3 * MiB);
  CHECK(source.available() == 5 * MiB);
  CHECK_FALSE(source.reserve(~Bytes{0}));
}

TEST_CASE("mapped memory counts against the same capacity", "[virtual source]") {
  VirtualSource source(40 * MiB);
  CHECK(source.map(0, 20 * MiB));
  CHECK_FALSE(source.reserve(22 * MiB));
  CHECK(source.reserve(20 * MiB));
  CHECK_FALSE(source.map(20 * MiB, 20 * MiB));
  source.unmap(0, 20 * MiB);
  CHECK(source.available() == 20 * MiB);
}

TEST_CASE("an injected failure refuses one request and changes nothing else", "[virtual source]") {
  VirtualSource source(GiB);
  const auto before = state_of(source);
  source.fail_nth(2);
  const Address address = source.reserve(2 * MiB).value();
  CHECK_FALSE(source.map(0, 2 * MiB));
  CHECK(source.map(0, 2 * MiB));
  CHECK(source.reserve(2 * MiB) == address + 2 * MiB);
  CHECK(state_of(source) != before);
}

}  // namespace
}  // namespace whatfits
