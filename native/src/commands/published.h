// Rows that others published beside their predictions, as tables and as JSON.
#pragma once

#include <nlohmann/json.hpp>

#include "accuracy/others.h"
#include "cli/session.h"

namespace whatfits::cli {

/// {"published", "rows": [{"id", "grade", "group", "source", "assumed", "why", "readings": [{"counter", "value", "predicted", "measured",
/// "error_percent"}]}], "errors": [{"grade", "group", "rows", "median_percent", "ninetieth_percent"}], "not_covered": [{"why", "rows",
/// "grade_a"}]}; bytes, and for a verdict the word.
nlohmann::ordered_json published_json(const accuracy::Others& others);

/// Every row, PyTorch's counters and nvidia-smi's apart, and the errors by group.
void published_section(const accuracy::Others& others, Session& session);

/// How many rows have no prediction, and why.
void uncovered_lines(const accuracy::Others& others, Session& session);

}  // namespace whatfits::cli
