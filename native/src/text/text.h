// Text on a screen: how wide it is, how it wraps, which word was meant.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace whatfits::cli {

/// Columns that UTF-8 text takes on a terminal: escape sequences and combining marks take none, wide East Asian characters two.
std::size_t display_width(std::string_view text);

/// Cut to at most `width` columns, with "…" where something is left out. Plain text only (no escape sequences).
std::string shortened(std::string_view text, std::size_t width);

/// The word as one line that a terminal cannot act on: control characters and ill-formed bytes become '?', cut to 60 columns.
std::string printable(std::string_view text);

/// Breaks at spaces so that no line is wider than `width` where that can be; every line but the first begins with `indent`.
std::string wrapped(std::string_view text, std::size_t width, std::string_view indent = "");

/// The candidate nearest to `word` by edit distance, the first of equals, if it is near enough to be what was meant; else "".
std::string nearest(std::string_view word, const std::vector<std::string>& candidates);

/// `text` as one word of a shell command.
std::string shell_quoted(std::string_view text);

}  // namespace whatfits::cli
