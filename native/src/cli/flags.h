// The request's flags: its keys in kebab-case, nested ones with a dot. They become JSON and go through parse_request, so that files
// and flags share one validation and one set of messages.
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "whatfits/config.h"

namespace whatfits::cli {

struct Flag {
  enum class Kind { text, value, boolean, preset };  ///< preset: an id, JSON text or a file; value: JSON, or a word of the request's
  std::string name;                                  ///< "--seq-len"
  std::string key;                                   ///< "seq_len", "allocator.expandable_segments"
  Kind kind;
  std::string hint;  ///< what stands for the value in the help
  std::string help;  ///< empty for keys that have one value so far: taken, not advertised
};

/// Every key of the request.
const std::vector<Flag>& request_flags();

/// What the command line says of the request.
struct RequestInput {
  std::optional<std::string> file;                         ///< a path, or "-"
  std::vector<std::pair<std::string, std::string>> flags;  ///< name and value as given, each name once
  /// The same input as words of another command line, for hints that can be copied.
  std::string as_words() const;
};

/// The request as JSON, not validated yet: the file's, or `base` where none is given, and over it the flags. Throws Failure if a file
/// cannot be read or is no JSON.
nlohmann::json read_request(const RequestInput& input, nlohmann::json base = nlohmann::json::object());

/// The validated request; throws Failure with every problem.
Config checked(const nlohmann::json& request);

}  // namespace whatfits::cli
