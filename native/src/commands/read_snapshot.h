// Snapshot files, plain or gzip, for the commands that look at measured runs.
#pragma once

#include <cstddef>
#include <string>

#include "cli/arguments.h"
#include "cli/session.h"
#include "whatfits/measured.h"
#include "whatfits/snapshot.h"

namespace whatfits::cli {

/// Reads the file that `arguments` names, in pieces. Throws Failure with the file, the place in it and what is wrong there.
snapshot::Snapshot read_snapshot(const Arguments& arguments, const Session& session);

/// The same of a file by its path.
snapshot::Snapshot read_snapshot(const std::string& path, const snapshot::ReadLimits& limits, const Session& session);

/// --cuda-device, or the first device that has events. Throws Failure if it has none.
std::size_t device_of(const Arguments& arguments, const snapshot::Snapshot& snapshot);

/// "train.py:31 in step", of the innermost line outside of PyTorch; "unknown place" without any.
std::string place_words(const snapshot::Snapshot& snapshot, snapshot::StackId stack);

/// What the failure's counters say, as a paragraph for people.
void failures_section(const snapshot::MeasuredRun& run, const snapshot::Snapshot& snapshot, std::size_t device, Session& session);

}  // namespace whatfits::cli
