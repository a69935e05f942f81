// A sweep over batch sizes: a process for each, a line for each, and nothing lost when one of them (or this one) is killed.
#pragma once

#include <string>
#include <vector>

#include "measure/run.h"

namespace whatfits::native {

/// Fills OUT/rows.jsonl line by line, synced, one for each batch: {"batch", "status", "fixture" or "why", ...}; after each, rewrites
/// OUT/sweep.csv, sweep.json and sweep.svg. `status` is "done", "oom" (with the counters up to then), "impossible" or "crashed". With
/// options.resume, batches that have a line of status "done", "oom" or "impossible" are left out. `config` is of the largest batch.
/// Says on standard error what each batch came to. Returns all rows. Throws as run_measured. Call before any OpenMP in this process:
/// it forks.
std::vector<Json> run_sweep(const Config& config, const MeasureOptions& options);

/// Allocated, reserved and predicted over batch, with the card's limit, as SVG. `rows` as in rows.jsonl.
std::string sweep_svg(const std::vector<Json>& rows, const Config& config);
/// The same as a table.
std::string sweep_csv(const std::vector<Json>& rows);
/// {"rows": [...]}.
Json sweep_json(const std::vector<Json>& rows);

}  // namespace whatfits::native
