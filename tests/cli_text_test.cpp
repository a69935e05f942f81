// The parts of the command line that write: units, tables, ranges, columns of a plot.
#include <catch2/catch_test_macros.hpp>

#include "cli/failure.h"
#include "cli/ranges.h"
#include "draw/plot.h"
#include "draw/series.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"

using namespace whatfits;
using namespace whatfits::cli;

TEST_CASE("units round half up and never overflow", "[cli]") {
  CHECK(with_commas(std::uint64_t{0}) == "0");
  CHECK(with_commas(std::uint64_t{999}) == "999");
  CHECK(with_commas(std::uint64_t{1000}) == "1,000");
  CHECK(with_commas(UINT64_MAX) == "18,446,744,073,709,551,615");
  CHECK(with_commas(INT64_MIN) == "-9,223,372,036,854,775,808");
  CHECK(mib(0) == "0.0");
  CHECK(mib(1646821376) == "1,570.5");
  CHECK(mib(MiB - 1) == "1.0");
  CHECK(mib(UINT64_MAX) == "17,592,186,044,416.0");
  CHECK(signed_mib(-static_cast<std::int64_t>(3 * MiB / 2)) == "-1.5");
  CHECK(signed_mib(-1) == "0.0");
  CHECK(gib(44948 * MiB) == "43.89");
  CHECK(decimal_gb(112'000'000'000) == "112.00");
  CHECK(size_text(1) == "1 byte");
  CHECK(size_text(2048) == "2.0 KiB");
  CHECK(size_text(1646821376) == "1.53 GiB");
  CHECK(percent(1, 3) == "33.3 %");
  CHECK(percent(5, 0) == "0.0 %");
  CHECK(percent(UINT64_MAX, UINT64_MAX) == "100.0 %");
}

TEST_CASE("width on a screen", "[cli]") {
  CHECK(display_width("B·NH·T²") == 7);
  CHECK(display_width("\x1b[31mred\x1b[0m") == 3);
  CHECK(display_width("e\u0301") == 1);
  CHECK(display_width("漢字") == 4);
  CHECK(display_width("\xff\xfe") == 2);
  CHECK(shortened("T²T²T²", 4) == "T²T…");
  CHECK(shortened("abc", 3) == "abc");
  CHECK(printable("a\tb\x1b[0m\xff") == "a?b?[0m?");
  CHECK(wrapped("one two three", 8, "  ") == "one two\n  three");
  CHECK(wrapped("unbreakable words", 4) == "unbreakable\nwords");
}

TEST_CASE("columns line up by width, not by bytes", "[cli]") {
  Table table({{"name", Table::Align::left}, {"MiB", Table::Align::right}});
  table.row({"T²", "1.0"});
  table.row({"long name", "1,000.0"});
  table.rule();
  table.row({"x"});
  CHECK(table.text(1) ==
        " name           MiB\n"
        " T²             1.0\n"
        " long name  1,000.0\n"
        " ──────────────────\n"
        " x\n");
}

TEST_CASE("the nearest word, and words for a shell", "[cli]") {
  CHECK(nearest("--modle", {"--batch", "--model"}) == "--model");
  CHECK(nearest("--quux", {"--batch", "--model"}).empty());
  CHECK(shell_quoted("a40") == "a40");
  CHECK(shell_quoted("it's") == "'it'\\''s'");
  CHECK(shell_quoted("") == "''");
}

TEST_CASE("ranges", "[cli]") {
  using Values = std::vector<std::int64_t>;
  CHECK(parse_ranges("--batches", "1..4", 100) == Values{1, 2, 3, 4});
  CHECK(parse_ranges("--batches", "16,18,20..22", 100) == Values{16, 18, 20, 21, 22});
  CHECK(parse_ranges("--batches", "3,1..3", 100) == Values{3, 1, 2});
  for (const char* wrong :
       {"", ",", "1,", "..", "1..", "..4", "0", "-1", "1.5", "1..2..3", "5..1", "101", "1 ,2", "a", "9999999999999999999"}) {
    INFO(wrong);
    CHECK_THROWS_AS(parse_ranges("--batches", wrong, 100), Failure);
  }
  CHECK_THROWS_AS(parse_ranges("--batches", "1..5000", 1 << 20), Failure);
}

namespace {

// `n` events, one of them far above the others.
Timeline spike(std::size_t n, std::size_t at) {
  Timeline timeline;
  timeline.step = 1;
  timeline.labels = {""};
  for (std::size_t i = 0; i < n; ++i) {
    TimelineRow row;
    row.event = i + 1;
    row.phase = i < n / 2 ? Phase::forward : Phase::backward;
    row.counters = {i == at ? 10 * GiB : GiB, 11 * GiB};
    row.categories[static_cast<std::size_t>(Category::activations)] = row.counters.allocated - 512;
    timeline.rows.push_back(row);
  }
  return timeline;
}

}  // namespace

TEST_CASE("no column loses the peak", "[cli]") {
  for (const std::size_t n : {1u, 3u, 50u, 1000u, 7777u}) {
    for (const std::size_t at : {std::size_t{0}, n / 3, n - 1}) {
      const PlotSeries series = plot_series(spike(n, at), 50);
      REQUIRE(series.columns.size() == 50);
      CHECK(series.peak_row == at);
      CHECK(series.columns[series.peak_column].allocated == 10 * GiB);
      CHECK(series.columns[series.peak_column].categories[static_cast<std::size_t>(Category::rounding)] == 512);
      CHECK(series.phases.back().end == 50);
    }
  }
}

TEST_CASE("axis marks are round and stay below the top", "[cli]") {
  CHECK(axis_marks(44 * GiB, 5) == std::vector<Bytes>{0, 10 * GiB, 20 * GiB, 30 * GiB, 40 * GiB});
  CHECK(axis_marks(1, 5) == std::vector<Bytes>{0});
  CHECK(axis_marks(UINT64_MAX, 5).size() <= 8);
}

TEST_CASE("the plot keeps to its width", "[cli]") {
  const std::string plot = terminal_plot(spike(300, 290), 12 * GiB, {.width = 60, .height = 8}, Style());
  std::string_view rest = plot;
  std::size_t lines = 0;
  while (!rest.empty()) {
    const std::size_t end = rest.find('\n');
    CHECK(display_width(rest.substr(0, end)) <= 60);
    rest.remove_prefix(end + 1);
    ++lines;
  }
  CHECK(lines == 8 + 4);
  CHECK(plot.find("peak 10,240.0 MiB ▼") != std::string::npos);
}
