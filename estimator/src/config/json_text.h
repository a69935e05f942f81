// JSON text to a value, with the limits that keep hostile text harmless.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string_view>
#include <vector>

#include "whatfits/request.h"

namespace whatfits::config {

/// Parses `text` into `out` and returns true, or adds what is wrong with it to `problems` and returns false. Checks size,
/// UTF-8, nesting and syntax; a key given twice is a problem too, but parsing goes on.
bool parse_text(std::string_view text, nlohmann::ordered_json& out, std::vector<Problem>& problems);

/// Whether `value` nests at most limits::nesting deep.
bool nests_within_limit(const nlohmann::ordered_json& value);

/// The problem of a request that nests too deep.
Problem too_deep();

}  // namespace whatfits::config
