// `whatfits measure`: a training run for real, with what it took of memory beside what was predicted.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

#include "measure/kernels.h"
#include "whatfits/json.h"

namespace whatfits::native {

struct MeasureOptions {
  std::string on = "cpu";
  std::int64_t steps = 0;  ///< 0: the request's
  std::uint64_t seed = 0;  ///< of the parameters and of the order of the data
  std::string data;        ///< a text or token file; empty: random tokens that are their own targets
  Hyperparameters hyper;
  std::string save;                   ///< write a checkpoint here after the last step
  std::string load;                   ///< go on from this checkpoint
  std::string fixture;                ///< write what was measured here, as JSON; "-" for standard output
  bool poison = false;                ///< fill freed memory with NaN
  bool allow_busy = false;            ///< skip the check of what memory is available
  std::vector<std::int64_t> batches;  ///< a sweep: one process for each
  std::string out;                    ///< the sweep's folder
  bool resume = false;                ///< go on with the sweep in `out`
  std::vector<std::string> argv;      ///< for the fixture: how this was asked for
};

/// Runs it and prints; the exit status of the command line: 0 done (or a sweep finished), 1 memory ran out, 2 it cannot be done (one
/// line on `err` says why, and nothing is written). `config` is validated. Call before any OpenMP in this process: a sweep forks.
int measure_command(const Config& config, const MeasureOptions& options, std::ostream& out, std::ostream& err);

/// "16,18,20..24" as numbers, or nothing when it is not that.
std::optional<std::vector<std::int64_t>> parse_batches(const std::string& text);

/// Threads that wait in a loop bring a busy machine to a standstill, and OpenMP reads its settings before main(): starts the program
/// anew with OMP_WAIT_POLICY=passive unless that is set. Call first in main(). Returns if it cannot.
void prefer_passive_waiting(char** argv);

}  // namespace whatfits::native
