// What is answered: the counters PyTorch would show, where the peak is, what fails and why. Sizes in bytes.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "whatfits/bytes.h"
#include "whatfits/config.h"
#include "whatfits/pace.h"
#include "whatfits/program.h"

namespace whatfits {

/// torch.cuda.memory_allocated() and memory_reserved().
struct Counters {
  Bytes allocated = 0;
  Bytes reserved = 0;
  friend bool operator==(const Counters&, const Counters&) = default;
};

/// The counters as a script reads them in one step; absent from the point where memory ran out.
struct StepCounters {
  std::optional<Counters> before, after_forward, after_backward, after_optimizer_step, after_zero_grad;
  std::optional<Counters> peak;  ///< high-water marks of the whole step
  std::uint64_t retries = 0;     ///< times that cached segments were given back in it
};

/// A place in the run.
struct Moment {
  int step = 0;  ///< from 1; 0 before the first
  Phase phase = Phase::warmup;
  std::int16_t layer = kNoLayer;
  OpKind op = OpKind::none;
  std::uint64_t event = 0;  ///< allocations and frees before it, from the start of the program
  Bytes requested = 0;      ///< by the allocation that happens there
};

struct OutOfMemory {
  Moment at;
  Bytes segment = 0;        ///< that the device refused
  Bytes tensor = 0;         ///< that was asked for
  Counters counters;        ///< when everything that could be given back had been
  Bytes free = 0;           ///< on the device
  Bytes cached_free = 0;    ///< in the pool, in pieces too small
  Bytes largest_piece = 0;  ///< the largest of them
  Counters peak;            ///< highest in the failing step up to then
  std::string message;      ///< PyTorch's
};

/// From `step` on every step repeats the one `period` steps earlier: the allocator's whole state recurred.
struct Settled {
  int step = 0;
  int period = 0;
};

/// One replay of a program on a card.
struct Trace {
  std::optional<Counters> after_warmup, after_model, after_optimizer;
  std::vector<StepCounters> steps;
  std::optional<OutOfMemory> oom;
  std::optional<Settled> settled;
  Counters peak;   ///< the highest over all steps
  Moment peak_at;  ///< first event, of the highest step, at which `allocated` reached its peak
  std::uint64_t retries = 0;
  bool fits() const { return !oom; }
  /// Whether the run can be said to go on: it repeats from some step on, which proves it; or it ran `most` steps, gave nothing back to
  /// the device in the second half of them, and what it took there leaves room in `free`: for as much again after one rise, for a
  /// thousand steps at that pace after several. That is likely and no proof. (Some scripts shuffle small tensors for hundreds of steps
  /// before a state recurs; of 60 such runs replayed for 600 steps, those with one late rise had no second that mattered.)
  bool goes_on(int most, Bytes free) const;
};

/// One line of the account of what is alive at a moment.
struct LedgerRow {
  Category category = Category::temporaries;
  std::string label;
  std::int16_t layer = kNoLayer;
  OpKind op = OpKind::none;
  std::vector<std::int64_t> shape;
  DType dtype = DType::float32;
  int count = 1;        ///< tensors alike that the row stands for
  Bytes bytes = 0;      ///< of all of them, as asked for
  std::string formula;  ///< of one, in B, T, C, NH, V and P
};

/// Everything alive at one moment. The rows sum to `allocated`; what blocks have beyond the bytes asked for is the last row.
struct Ledger {
  Moment at;
  Counters counters;
  std::vector<LedgerRow> rows;
  std::array<Bytes, kCategories> categories{};
};

struct Report {
  Config request;
  std::uint64_t parameters = 0;
  std::int64_t rank = 0;  ///< of several cards, the one replayed: the one with the most
  std::string program_hash;
  std::string trace_hash;
  Trace trace;
  Bytes device_peak = 0;     ///< reserved at its peak and what the device holds besides
  Ledger ledger;             ///< at the peak
  bool by_formula = false;   ///< an engine other than torch: only verdict, peak and ledger mean something
  std::optional<Pace> pace;  ///< how long a step takes; not by formula
  std::vector<std::string> assumptions;
};

/// "2.11 GiB": as PyTorch's messages write sizes.
std::string format_size(Bytes bytes);

}  // namespace whatfits
