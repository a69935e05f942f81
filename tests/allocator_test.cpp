// The caching allocator's rules, one by one. allocator_trace_test.cpp has them all at once, against real traces.
#include <catch2/catch_test_macros.hpp>
#include <string>
#include <vector>

#include "allocator/caching_allocator.h"
#include "allocator/virtual_source.h"
#include "support/recording_source.h"

namespace whatfits {
namespace {

using testing::SegmentEvent;
using testing::TraceAction;

/// An allocator over a virtual card, with what it asked of the card.
struct Card {
  explicit Card(Bytes capacity, bool expandable = false)
      : memory(capacity), source(memory), allocator(source, {.expandable_segments = expandable}, capacity) {}

  CachingAllocator::BlockId take(Bytes bytes) {
    const auto block = allocator.allocate(bytes);
    REQUIRE(block);
    return *block;
  }
  /// Where the next block of this size would lie.
  Address probe(Bytes bytes) {
    const CachingAllocator::BlockId block = take(bytes);
    const Address address = allocator.address(block);
    allocator.free(block);
    return address;
  }
  Address at(CachingAllocator::BlockId block) const { return allocator.address(block); }
  std::vector<std::uint64_t> state() const {
    std::vector<std::uint64_t> state;
    allocator.append_state(state);
    return state;
  }

  VirtualSource memory;
  testing::RecordingSource source;
  CachingAllocator allocator;
};

/// A picture of a segment's blocks: sizes in units, a star behind those in use.
std::string picture(const SegmentView& segment, Bytes unit = MiB) {
  std::string text;
  Address end = segment.address;
  for (const BlockView& block : segment.blocks) {
    CHECK(block.address == end);
    end += block.size;
    if (!text.empty()) text += ' ';
    text += std::to_string(block.size / unit);
    if (block.allocated) text += '*';
  }
  CHECK(end == segment.address + segment.size);
  return text;
}

TEST_CASE("requests are rounded up to 512 bytes, none to one unit", "[allocator]") {
  Card card(GiB);
  Bytes expected = 0;
  for (const auto& [asked, counted] : {std::pair<Bytes, Bytes>{0, 512}, {1, 512}, {512, 512}, {513, 1024}, {MiB - 1, MiB}}) {
    card.take(asked);
    expected += counted;
    CHECK(card.allocator.allocated() == expected);
  }
}

TEST_CASE("the segment asked for depends on the request", "[allocator]") {
  struct Case {
    Bytes request, segment;
    bool small;
  };
  for (const Case& c : {Case{1, 2 * MiB, true}, Case{MiB, 2 * MiB, true}, Case{MiB + 1, 20 * MiB, false},
                        Case{10 * MiB - 512, 20 * MiB, false}, Case{10 * MiB - 511, 10 * MiB, false}, Case{10 * MiB, 10 * MiB, false},
                        Case{10 * MiB + 1, 12 * MiB, false}, Case{155 * MiB, 156 * MiB, false}}) {
    Card card(GiB);
    card.take(c.request);
    CHECK(card.allocator.reserved() == c.segment);
    REQUIRE(card.allocator.segments().size() == 1);
    CHECK(card.allocator.segments()[0].size == c.segment);
    CHECK(card.allocator.segments()[0].small == c.small);
  }
}

TEST_CASE("the pools do not help each other out", "[allocator]") {
  Card card(GiB);
  card.allocator.free(card.take(20 * MiB));
  card.take(MiB);
  CHECK(card.allocator.reserved() == 22 * MiB);
  card.allocator.free(card.take(MiB + 512));
  CHECK(card.allocator.reserved() == 22 * MiB);
}

TEST_CASE("the large pool splits off a tail only if it is over 1 MiB", "[allocator]") {
  for (const Bytes tail : {MiB - 512, MiB, MiB + 512}) {
    Card card(GiB);
    card.allocator.free(card.take(20 * MiB));
    card.take(20 * MiB - tail);
    CHECK(card.allocator.segments()[0].blocks.size() == (tail > MiB ? 2 : 1));
    CHECK(card.allocator.allocated() == (tail > MiB ? 20 * MiB - tail : 20 * MiB));  // an unsplit tail counts as allocated
  }
}

TEST_CASE("the small pool and expandable segments split off any tail", "[allocator]") {
  Card card(GiB);
  card.take(MiB);
  card.take(MiB - 512);
  CHECK(picture(card.allocator.segments()[0], 512) == "2048* 2047* 1");

  Card expandable(GiB, true);
  expandable.take(20 * MiB - 512);
  CHECK(picture(expandable.allocator.segments()[0], 512) == "40959* 1");
}

TEST_CASE("best fit takes the smallest block, among equals the lowest", "[allocator]") {
  Card card(GiB);
  const auto hole_12 = card.take(12 * MiB);  // a piece of 32 MiB: 12, 20
  card.take(20 * MiB);
  const auto hole_10_low = card.take(10 * MiB);  // the piece below it: 10, 10, 12
  const auto hole_10_high = card.take(10 * MiB);
  card.take(12 * MiB);
  const Address low = card.at(hole_10_low);
  const Address high = card.at(hole_10_high);
  const Address large = card.at(hole_12);
  REQUIRE(low < high);
  REQUIRE(high < large);
  for (const auto block : {hole_12, hole_10_high, hole_10_low}) card.allocator.free(block);

  CHECK(card.at(card.take(9 * MiB + 512)) == low);
  CHECK(card.at(card.take(9 * MiB + 512)) == high);
  CHECK(card.at(card.take(9 * MiB + 512)) == large);
  CHECK(card.allocator.reserved() == 64 * MiB);
}

TEST_CASE("a freed block merges with both neighbours, at once", "[allocator]") {
  Card card(GiB);
  const auto a = card.take(4 * MiB);
  const auto b = card.take(4 * MiB);
  const auto c = card.take(4 * MiB);
  const auto segment = [&] { return picture(card.allocator.segments()[0]); };
  CHECK(segment() == "4* 4* 4* 8");
  SECTION("next only") {
    card.allocator.free(c);
    CHECK(segment() == "4* 4* 12");
  }
  SECTION("previous only") {
    card.allocator.free(a);
    CHECK(segment() == "4 4* 4* 8");
    card.allocator.free(b);
    CHECK(segment() == "8 4* 8");
  }
  SECTION("both") {
    card.allocator.free(a);
    card.allocator.free(c);
    card.allocator.free(b);
    CHECK(segment() == "20");
  }
  CHECK(card.allocator.reserved() == 20 * MiB);
}

TEST_CASE("segments do not merge, even where they touch", "[allocator]") {
  Card card(GiB);
  const auto a = card.take(10 * MiB);
  const auto b = card.take(10 * MiB);
  REQUIRE(card.at(a) + 10 * MiB == card.at(b));
  card.allocator.free(a);
  card.allocator.free(b);
  CHECK(card.allocator.segments().size() == 2);
  card.take(20 * MiB);
  CHECK(card.allocator.reserved() == 40 * MiB);
}

TEST_CASE("when the device refuses, cached segments go back, large ones first, and the request succeeds", "[allocator]") {
  Card card(64 * MiB);
  const auto small = card.take(MiB);
  const auto larger = card.take(30 * MiB);
  const auto large = card.take(20 * MiB);
  for (const auto block : {small, larger, large}) card.allocator.free(block);
  card.source.events.clear();

  card.take(40 * MiB);
  CHECK(card.allocator.retries() == 1);
  REQUIRE(card.source.events.size() == 4);
  const std::vector<std::pair<TraceAction, Bytes>> expected = {{TraceAction::segment_free, 20 * MiB},
                                                               {TraceAction::segment_free, 30 * MiB},
                                                               {TraceAction::segment_free, 2 * MiB},
                                                               {TraceAction::segment_alloc, 40 * MiB}};
  for (std::size_t i = 0; i < expected.size(); ++i) {
    CHECK(card.source.events[i].action == expected[i].first);
    CHECK(card.source.events[i].bytes == expected[i].second);
  }
  CHECK(card.allocator.reserved() == 40 * MiB);
  CHECK(card.allocator.peak_reserved() == 52 * MiB);
}

TEST_CASE("a segment with one live block stays, and the refusal says what failed", "[allocator]") {
  Card card(100 * MiB);
  const auto block = card.take(12 * MiB);
  card.take(20 * MiB + 1);              // 22 MiB
  card.allocator.free(card.take(MiB));  // goes back in the retry
  card.allocator.free(block);           // so does this
  const auto refused = card.allocator.allocate(79 * MiB + 1);
  CHECK_FALSE(refused);
  CHECK(card.allocator.retries() == 1);
  CHECK(card.allocator.refusal().requested == 79 * MiB + 1);
  CHECK(card.allocator.refusal().segment == 80 * MiB);
  CHECK(card.allocator.refusal().available == 78 * MiB);
  CHECK(card.allocator.reserved() == 22 * MiB);
  CHECK(card.allocator.allocated() == 20 * MiB + 512);

  SECTION("and the allocator goes on") {
    card.take(78 * MiB);
    CHECK(card.memory.available() == 0);
  }
}

TEST_CASE("absurd requests are refused without touching the cache", "[allocator]") {
  for (const bool expandable : {false, true}) {
    Card card(GiB, expandable);
    card.allocator.free(card.take(20 * MiB));
    CHECK_FALSE(card.allocator.allocate(~Bytes{0}));
    CHECK(card.allocator.refusal().requested == ~Bytes{0});
    CHECK(card.allocator.reserved() == 20 * MiB);
    CHECK_FALSE(card.allocator.allocate(Bytes{1} << 60));
    CHECK(card.allocator.reserved() == 0);
  }
}

TEST_CASE("a device that refuses once costs a retry, one that refuses twice the request", "[allocator]") {
  for (const bool expandable : {false, true}) {
    Card card(GiB, expandable);
    card.memory.fail_nth(1);
    card.take(20 * MiB);
    CHECK(card.allocator.retries() == 1);
  }
  Card card(40 * MiB);
  card.memory.fail_nth(2);
  card.take(20 * MiB);
  CHECK_FALSE(card.allocator.allocate(22 * MiB));
}

TEST_CASE("peaks are kept until they are reset", "[allocator]") {
  Card card(GiB);
  card.allocator.free(card.take(30 * MiB));
  card.take(MiB);
  CHECK(card.allocator.peak_allocated() == 30 * MiB);
  CHECK(card.allocator.peak_reserved() == 32 * MiB);
  card.allocator.reset_peaks();
  CHECK(card.allocator.peak_allocated() == MiB);
  CHECK(card.allocator.peak_reserved() == 32 * MiB);
}

TEST_CASE("an expandable segment grows at its end, in units, as far as needed", "[allocator][expandable]") {
  Card card(GiB, true);
  const auto a = card.take(5 * MiB);
  const Address base = card.at(a);
  CHECK(card.allocator.reserved() == 20 * MiB);
  CHECK(card.at(card.take(30 * MiB)) == base + 5 * MiB);  // 15 MiB were there, 20 more are mapped
  CHECK(card.allocator.reserved() == 40 * MiB);
  card.take(MiB);
  CHECK(card.allocator.reserved() == 42 * MiB);
  REQUIRE(card.allocator.segments().size() == 2);
  CHECK(picture(card.allocator.segments()[0]) == "1* 1");  // the small pool's addresses were taken later: lower
  CHECK(picture(card.allocator.segments()[1]) == "5* 30* 5");
  CHECK(card.source.events == std::vector<SegmentEvent>{{TraceAction::segment_map, 20 * MiB, base},
                                                        {TraceAction::segment_map, 20 * MiB, base + 20 * MiB},
                                                        {TraceAction::segment_map, 2 * MiB, card.allocator.segments()[0].address}});
}

TEST_CASE("best fit spares the growing end of an expandable segment", "[allocator][expandable]") {
  Card card(GiB, true);
  const auto hole = card.take(30 * MiB);
  const Address base = card.at(hole);
  card.take(5 * MiB);  // 5 MiB are left at the end
  card.allocator.free(hole);
  CHECK(card.probe(4 * MiB) == base);              // the end is smaller, but can grow
  CHECK(card.probe(31 * MiB) == base + 35 * MiB);  // only the end can
}

TEST_CASE("out of memory, expandable segments give back the whole units inside free blocks", "[allocator][expandable]") {
  Card card(100 * MiB, true);
  const auto first = card.take(5 * MiB);
  const auto hole = card.take(50 * MiB);
  card.take(5 * MiB);
  const Address base = card.at(first);
  card.allocator.free(hole);
  card.source.events.clear();
  REQUIRE(card.allocator.reserved() == 60 * MiB);

  SECTION("and the request succeeds where there is room") {
    card.take(60 * MiB);
    CHECK(card.allocator.retries() == 1);
    // 40 MiB had been mapped for it when the device refused; the retry begins at the lowest unmapped place with room.
    CHECK(card.source.events.front() == SegmentEvent{TraceAction::segment_unmap, 20 * MiB, base + 20 * MiB});
    CHECK(card.allocator.reserved() == 100 * MiB);
    REQUIRE(card.allocator.segments().size() == 2);
    CHECK(picture(card.allocator.segments()[0]) == "5* 15");
    CHECK(picture(card.allocator.segments()[1]) == "15 5* 60*");
  }
  SECTION("and a request without room begins a new range below, where the next one goes") {
    CHECK_FALSE(card.allocator.allocate(81 * MiB));
    CHECK(card.allocator.reserved() == 40 * MiB);
    CHECK(card.allocator.refusal().segment == 82 * MiB);
    CHECK(card.allocator.refusal().available == 60 * MiB);
    CHECK(card.at(card.take(40 * MiB)) == base - 128 * MiB);
    REQUIRE(card.allocator.segments().size() == 3);
    CHECK(picture(card.allocator.segments()[0]) == "40*");
    CHECK(picture(card.allocator.segments()[1]) == "5* 15");
    CHECK(picture(card.allocator.segments()[2]) == "15 5*");
  }
  SECTION("and a hole is mapped again when it has room") {
    const auto end = card.take(60 * MiB);  // the whole units of the hole went to the end
    card.allocator.free(end);
    card.take(60 * MiB);
    CHECK(card.allocator.retries() == 1);
    CHECK_FALSE(card.allocator.allocate(40 * MiB));  // room for it is in the hole, and no memory
    CHECK(card.allocator.refusal().available == 0);
  }
}

TEST_CASE("an expandable segment that a retry empties is given back with its addresses", "[allocator][expandable]") {
  Card card(100 * MiB, true);
  const auto round = [&card] {
    card.allocator.free(card.take(70 * MiB));
    card.allocator.free(card.take(MiB));
    CHECK_FALSE(card.allocator.allocate(101 * MiB));
    CHECK(card.allocator.reserved() == 0);
    return card.state();
  };
  const auto once = round();
  CHECK(round() == once);
}

TEST_CASE("holes too small for a request use up the addresses of an expandable segment, and a second one begins",
          "[allocator][expandable]") {
  Card card(200 * MiB, true);  // 9/8 of that, in units of 20 MiB: a range of 240 MiB
  const auto a = card.take(60 * MiB);
  const auto b = card.take(20 * MiB);
  const auto c = card.take(60 * MiB);
  const auto d = card.take(20 * MiB);
  card.allocator.free(a);
  card.allocator.free(c);
  card.source.events.clear();
  // 40 MiB are free on the card. The retry unmaps both holes: 160 MiB, but 80 MiB of addresses in one piece.
  const auto e = card.take(100 * MiB);
  CHECK(card.allocator.retries() == 1);
  CHECK(card.at(e) == card.at(b) - 60 * MiB - 256 * MiB);  // as everywhere, new addresses come below the old ones
  CHECK(card.allocator.reserved() == 140 * MiB);
  for (const auto block : {b, d, e}) card.allocator.free(block);
  CHECK_FALSE(card.allocator.allocate(201 * MiB));
  CHECK(card.allocator.reserved() == 0);
  CHECK(card.allocator.segments().empty());
}

TEST_CASE("the state recurs when blocks, segments and the card do", "[allocator]") {
  for (const bool expandable : {false, true}) {
    Card card(GiB, expandable);
    const auto kept = card.take(3 * MiB);
    const auto step = [&] {
      std::vector<CachingAllocator::BlockId> blocks;
      for (const Bytes bytes : {12 * MiB, MiB, 3 * MiB, 40 * MiB, Bytes{700}}) blocks.push_back(card.take(bytes));
      for (const std::size_t i : {2U, 0U, 4U, 1U, 3U}) card.allocator.free(blocks[i]);
    };
    const auto before = card.state();
    step();
    const auto settled = card.state();
    CHECK(settled != before);
    step();
    CHECK(card.state() == settled);

    card.allocator.free(kept);  // the same segments, one block less in use
    CHECK(card.state() != settled);
  }
}

}  // namespace
}  // namespace whatfits
