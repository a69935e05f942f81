// The JSON of a report or of a run of whatfits measure beside a prediction: their counters, reading by reading.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "cli/arguments.h"
#include "cli/session.h"

namespace whatfits::cli {

/// The file, plain or gzip, if it is a JSON object and no snapshot; none of a pipe. Throws Failure if it cannot be read, is over 64 MiB, or
/// begins as an object and is no JSON.
std::optional<nlohmann::json> json_object_of(const std::string& path);

/// `whatfits compare` for such a file. The request is the command line's; without any, the file's own. Throws Failure for JSON of another
/// kind. Returns the exit status: 0 as predicted, 1 some counter differs by more than `tolerance` bytes or is only in one.
int compare_counters(const std::string& path, const nlohmann::json& file, std::int64_t tolerance, const Arguments& arguments,
                     Session& session);

}  // namespace whatfits::cli
