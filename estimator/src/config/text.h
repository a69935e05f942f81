// Words for problems: values shown safely, lists, the nearest known word.
#pragma once

#include <cstddef>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

namespace whatfits::config {

/// What a request is read from: keys in the order of its text.
using json = nlohmann::ordered_json;

/// Offset of the first byte that is not part of well-formed UTF-8 (surrogates and overlong forms are not), or npos.
std::size_t invalid_utf8(std::string_view text);

/// Whether `text` has a control character (C0, DEL, C1), which a terminal may act on.
bool has_control(std::string_view text);

/// `text` fit to print on one line: control characters escaped, ill-formed bytes replaced, cut to about 60 bytes with "…".
std::string shown(std::string_view text);

/// The same for a JSON value: a string's content, anything else as JSON. `value` must not nest deeper than limits::nesting.
std::string shown(const nlohmann::ordered_json& value);

/// "a, b and c"; "a, b or c".
std::string listed(const std::vector<std::string_view>& words, std::string_view last_joint);

/// The candidate nearest to `word` by edit distance, ties to the first, if it is near enough to be what was meant; else empty.
std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates);

/// "; did you mean X?" or nothing.
std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates);

}  // namespace whatfits::config
