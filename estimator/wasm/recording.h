// A measured snapshot on its way through the border: fed in pieces, then looked at and laid over the prediction of a request.
// Plain C++, so that the parity test does the same natively.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "arrays.h"
#include "questions.h"
#include "whatfits/compare.h"
#include "whatfits/measured.h"
#include "whatfits/snapshot.h"

namespace whatfits::wasm {

class Recording {
 public:
  explicit Recording(const snapshot::ReadLimits& limits) : reader_(std::in_place, limits) {}

  /// False once something is wrong; finish() says what.
  bool feed(const void* bytes, std::size_t size) { return reader_ && reader_->feed(bytes, size); }
  /// After the last piece. {"device", "events", "events_in_file", "allocations", "peak": {"event", "allocated", "reserved"}, "end":
  /// {"allocated", "reserved"}, "retries": [event], "failures": [...], "strange"}; of the first device that has events, at most a million.
  /// A problem has the key "file" and says at which byte.
  Answer finish();
  bool read() const { return snapshot_.has_value(); }

  /// Valid once read() (as all below). moment_json() without what finish() said; an event past the end is the last.
  std::string at(std::size_t event) const;

  /// w columns of events [begin, end): f64 allocated, reserved, predicted allocated, predicted reserved (each the highest of its
  /// column; predicted are 0 without a comparison); u32 event of the highest allocated.
  const Arrays& columns(std::size_t begin, std::size_t end, std::size_t width);

  /// Lays the run over the prediction of a request: to_json(Comparison) with "request" and "verdict" ("as predicted" or "differs");
  /// or problems: of the request, or that the two have too little in common (the key is "snapshot").
  Answer compare(std::string_view request);

 private:
  std::optional<snapshot::SnapshotReader> reader_;
  std::optional<snapshot::Snapshot> snapshot_;
  std::size_t device_ = 0;
  snapshot::MeasuredRun run_;
  snapshot::PoolHistory pools_;
  std::vector<Counters> beside_;
  Arrays columns_;
};

}  // namespace whatfits::wasm
