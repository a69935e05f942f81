// A request that stays open: its Program is recorded once, then drawn, searched and swept piece by piece.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "arrays.h"
#include "questions.h"
#include "whatfits/jobs.h"
#include "whatfits/picture.h"

namespace whatfits::wasm {

class Session {
 public:
  explicit Session(const Config& config) : config_(config), program_(replayed() ? record(config) : Program{}) {}

  /// False for engine "formula", which has no step to draw: timeline, columns, pool and ledgers at events are not to be asked.
  bool replayed() const { return config_.engine == Engine::torch; }

  std::string request() const;
  /// estimate()'s.
  std::string report() const;
  /// The same without "program_hash", "trace_hash" and "ledger": for every frame of a drag.
  std::string summary() const;
  std::string ledger(std::uint64_t event);
  std::string pool(std::uint64_t event) const;

  /// Picks the step (0 for the setup, -1 for the last) that timeline arrays and columns are of. Text: {"step", "labels",
  /// "categories", "phases", "ops", "oom"}.
  std::string timeline(int step);
  /// Of the step picked. n events: f64 event, bytes, allocated, reserved; f64 categories [kCategories][n]; u32 label; i16 layer;
  /// u8 phase, op, alloc.
  const Arrays& timeline_arrays();
  /// w columns: f64 allocated, reserved, categories [kCategories][w]; u32 row.
  const Arrays& columns(std::size_t begin, std::size_t end, std::size_t width);

  void fit_begin(Axis axis) { fit_.emplace(config_, axis); }
  bool fit_step() { return fit_ && fit_->step(); }
  int fit_replays() const { return fit_ ? fit_->replays() : 0; }
  /// Valid after fit_step() has returned false.
  std::string fit_result() const { return write(to_json(fit_->result())); }
  std::int64_t fit_largest() const { return fit_->largest(); }
  bool fitting() const { return fit_.has_value(); }

  void advise_begin() { advise_.emplace(config_); }
  bool advise_step() { return advise_ && advise_->step(); }
  /// What is known so far, with {"tried", "of"} counting changes and pairs.
  std::string advise_result() const;
  bool advising() const { return advise_.has_value(); }

  /// Batch-major grid. What is wrong with it, or an empty text.
  std::string sweep_begin(std::vector<std::int64_t> batches, std::vector<std::int64_t> seq_lens);
  /// One cell. False when none is left.
  bool sweep_step();
  /// n cells done so far: f64 batch, seq_len, allocated, reserved, failed_step; u8 fits.
  const Arrays& sweep_arrays();

 private:
  Config config_;
  Program program_;
  std::optional<Timeline> timeline_;
  std::optional<FitJob> fit_;
  std::optional<AdviseJob> advise_;
  std::vector<std::int64_t> batches_, seq_lens_;
  std::vector<SweepCell> cells_;
  Arrays timeline_arrays_, columns_, sweep_arrays_;
};

}  // namespace whatfits::wasm
