// "How wrong is it" as one command: every fixture, predicted, measured, error.
//
//   cmake --build build/release --target accuracy_table && build/release/tools/accuracy_table [--wrong | --near | --cards] [FOLDER]
//
// prints one line for each counter of each fixture (with --wrong only those that do not agree) and a summary. FOLDER is fixtures/ of
// this source tree if not given. With --near it prints instead what the core is to know of recorded runs, with --cards what it is to know
// of runs on real cards: write those to estimator/src/analysis/near_table.inc and card_runs_table.inc when the fixtures or the
// predictions change. Exit status: 0 everything agrees but what
// fixtures/torch/inexact.json names, 1 something else does not, 2 a fixture cannot be read. Counters of PyTorch and of our own runs must
// agree to the byte; a published figure within half a unit of its last printed digit; the resident size of a process within 3 %.
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iomanip>
#include <iostream>
#include <set>
#include <string>

#include "accuracy/accuracy.h"
#include "accuracy/near.h"

namespace {

using whatfits::accuracy::Row;

std::string text(const std::optional<std::int64_t>& value) { return value ? std::to_string(*value) : "none"; }

void print(const Row& row) {
  std::cout << std::left << std::setw(52) << row.fixture << ' ' << std::setw(42) << row.counter << ' ' << std::right << std::setw(13)
            << text(row.predicted) << ' ' << std::setw(13) << text(row.measured) << ' ' << std::setw(10);
  if (row.predicted && row.measured && row.error() == 0) {
    std::cout << "exact";
  } else if (row.predicted && row.measured) {
    std::cout << row.error() << (row.agrees() ? "  (within its tolerance)" : "  WRONG");
  } else {
    std::cout << "WRONG";
  }
  std::cout << '\n';
}

}  // namespace

int main(int argc, char** argv) try {
  std::string folder = WHATFITS_FIXTURES;
  bool only_wrong = false;
  bool near = false;
  bool cards = false;
  for (int i = 1; i < argc; ++i) {
    if (std::string(argv[i]) == "--wrong") {
      only_wrong = true;
    } else if (std::string(argv[i]) == "--near") {
      near = true;
    } else if (std::string(argv[i]) == "--cards") {
      cards = true;
    } else {
      folder = argv[i];
    }
  }
  if (near) {
    std::cout << whatfits::accuracy::near_table(folder);
    return 0;
  }
  if (cards) {
    std::cout << whatfits::accuracy::card_runs_table(folder);
    return 0;
  }
  const std::vector<Row> rows = whatfits::accuracy::compare_all(folder);
  std::set<std::string> fixtures;
  std::set<std::string> wrong_fixtures;
  std::size_t exact = 0;
  std::size_t agree = 0;
  double worst = 0;
  std::cout << std::left << std::setw(52) << "fixture" << ' ' << std::setw(42) << "counter" << ' ' << std::right << std::setw(13)
            << "predicted" << ' ' << std::setw(13) << "measured" << ' ' << std::setw(10) << "error" << '\n';
  for (const Row& row : rows) {
    fixtures.insert(row.fixture);
    if (row.agrees()) ++agree;
    if (row.predicted == row.measured) ++exact;
    if (!row.agrees()) wrong_fixtures.insert(row.fixture);
    if (row.measured && *row.measured != 0) {
      const double part = 100.0 * std::abs(static_cast<double>(row.error()) / static_cast<double>(*row.measured));
      if (!row.agrees() && part > worst) worst = part;
    }
    if (!only_wrong || !row.agrees()) print(row);
  }
  std::cout << rows.size() << " counters of " << fixtures.size() << " fixtures: " << exact << " exact, " << agree - exact
            << " within their tolerance (printed digits; 3 % of a process's size), " << rows.size() - agree << " wrong (in "
            << wrong_fixtures.size() << " fixtures; worst error " << std::setprecision(3) << worst << " %)\n";
  const auto known = whatfits::accuracy::known_inexact(folder);
  bool news = false;
  for (const std::string& fixture : wrong_fixtures) {
    const auto cause = known.find(fixture.substr(fixture.find(": ") + 2));
    std::cout << "  " << fixture << ": " << (cause != known.end() ? cause->second : "NEW") << '\n';
    news = news || cause == known.end();
  }
  return news ? 1 : 0;
} catch (const std::exception& error) {
  std::cerr << "accuracy_table: " << error.what() << '\n';
  return 2;
}
