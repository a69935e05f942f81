// What can be asked of a measured run, whichever device it is on.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "measure/kernels.h"

namespace whatfits::native {

struct MeasureOptions {
  std::string on = "cpu";  ///< "cpu" or "cuda"
  std::uint64_t seed = 0;  ///< of the parameters and of the order of the data
  std::string data;        ///< a text or token file; empty: random tokens that are their own targets
  Hyperparameters hyper;
  std::string save;                   ///< write a checkpoint here after the last step
  std::string load;                   ///< go on from this checkpoint
  std::string fixture;                ///< write what was measured here, as JSON
  bool poison = false;                ///< fill freed memory with NaN
  bool allow_shared = false;          ///< measure though memory is short or others use the card; the fixture says so
  bool tf32 = false;                  ///< a card may multiply float32 with ten bits of mantissa
  std::vector<std::int64_t> batches;  ///< a sweep: one process for each
  std::string out;                    ///< the sweep's folder
  bool resume = false;                ///< go on with the sweep in `out`
  std::vector<std::string> argv;      ///< for the fixture: how this was asked for
};

/// Threads that wait in a loop bring a busy machine to a standstill, and OpenMP reads its settings before main(): starts the program
/// anew with OMP_WAIT_POLICY=passive unless that is set. Call first in main(). Returns if it cannot.
void prefer_passive_waiting(char** argv);

}  // namespace whatfits::native
