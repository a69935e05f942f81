// A sweep over batch sizes: a process for each, a line for each, and nothing lost when one of them (or this one) is killed.
#pragma once

#include <iosfwd>

#include "measure/run.h"

namespace whatfits::native {

/// Fills OUT/rows.jsonl line by line, synced, one for each batch: {"batch", "status", "fixture" or "why", ...}; after each, rewrites
/// OUT/sweep.csv and OUT/sweep.svg. `status` is "done", "oom" (with the counters up to then), "impossible" or "crashed". With
/// options.resume, batches that have a line of status "done", "oom" or "impossible" are left out.
/// Exit status as measure_command's.
int sweep_command(const Config& config, const MeasureOptions& options, std::ostream& out, std::ostream& err);

/// Allocated, reserved and predicted over batch, with the card's limit, as SVG. `rows` as in rows.jsonl.
std::string sweep_svg(const std::vector<Json>& rows, const Config& config);
/// The same as a table.
std::string sweep_csv(const std::vector<Json>& rows);

}  // namespace whatfits::native
