#include "text/text.h"

#include <algorithm>
#include <cstdint>
#include <numeric>

namespace whatfits::cli {
namespace {

// The character that begins at `at`, which moves past it. Ill-formed bytes come out one at a time as U+FFFD.
char32_t next_character(std::string_view text, std::size_t& at) {
  const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char lead = byte(at++);
  if (lead < 0x80) return lead;
  const int more = lead >= 0xF0 && lead < 0xF8 ? 3 : lead >= 0xE0 && lead < 0xF0 ? 2 : lead >= 0xC2 && lead < 0xE0 ? 1 : 0;
  if (more == 0 || at + static_cast<std::size_t>(more) > text.size()) return 0xFFFD;
  char32_t code = lead & (0x3Fu >> more);
  for (int i = 0; i < more; ++i) {
    const unsigned char next = byte(at + static_cast<std::size_t>(i));
    if ((next & 0xC0) != 0x80) return 0xFFFD;
    code = code << 6 | (next & 0x3Fu);
  }
  at += static_cast<std::size_t>(more);
  return code;
}

// Enough of Unicode's tables for names of cards and models; everything this program writes itself has width 1.
std::size_t columns_of(char32_t code) {
  if (code < 0x20 || (code >= 0x7F && code < 0xA0)) return 0;
  if ((code >= 0x300 && code <= 0x36F) || (code >= 0x200B && code <= 0x200F) || (code >= 0xFE00 && code <= 0xFE0F)) return 0;
  const bool wide = (code >= 0x1100 && code <= 0x115F) || (code >= 0x2E80 && code <= 0xA4CF) || (code >= 0xAC00 && code <= 0xD7A3) ||
                    (code >= 0xF900 && code <= 0xFAFF) || (code >= 0xFE30 && code <= 0xFE6F) || (code >= 0xFF00 && code <= 0xFF60) ||
                    (code >= 0xFFE0 && code <= 0xFFE6) || (code >= 0x1F300 && code <= 0x1FAFF) || (code >= 0x20000 && code <= 0x3FFFD);
  return wide ? 2 : 1;
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[j];
      row[j] = std::min({row[j] + 1, row[j - 1] + 1, replaced});
    }
  }
  return row[b.size()];
}

}  // namespace

std::size_t display_width(std::string_view text) {
  std::size_t width = 0;
  for (std::size_t at = 0; at < text.size();) {
    if (text[at] == '\x1b' && at + 1 < text.size() && text[at + 1] == '[') {
      at += 2;
      while (at < text.size() && (text[at] < '@' || text[at] > '~')) ++at;
      if (at < text.size()) ++at;
      continue;
    }
    width += columns_of(next_character(text, at));
  }
  return width;
}

std::string shortened(std::string_view text, std::size_t width) {
  if (display_width(text) <= width) return std::string(text);
  if (width == 0) return {};
  std::size_t used = 0;
  std::size_t keep = 0;
  for (std::size_t at = 0; at < text.size(); keep = at) {
    const std::size_t columns = columns_of(next_character(text, at));
    if (used + columns + 1 > width) break;
    used += columns;
  }
  return std::string(text.substr(0, keep)) + "…";
}

std::string printable(std::string_view text) {
  std::string clean;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t begin = at;
    const char32_t code = next_character(text, at);
    if (code < 0x20 || (code >= 0x7F && code < 0xA0) || code == 0xFFFD) {
      clean += '?';
    } else {
      clean += text.substr(begin, at - begin);
    }
  }
  return shortened(clean, 60);
}

std::string wrapped(std::string_view text, std::size_t width, std::string_view indent) {
  std::string out;
  std::size_t column = 0;
  bool fresh = true;  // nothing but the indent is on this line
  while (!text.empty()) {
    const std::size_t space = text.find(' ');
    const std::string_view word = text.substr(0, space);
    text.remove_prefix(space == std::string_view::npos ? text.size() : space + 1);
    if (word.empty()) continue;
    const std::size_t columns = display_width(word);
    if (!fresh && column + 1 + columns > width) {
      out += '\n';
      out += indent;
      column = display_width(indent);
      fresh = true;
    }
    if (!fresh) {
      out += ' ';
      ++column;
    }
    out += word;
    column += columns;
    fresh = false;
  }
  return out;
}

std::string nearest(std::string_view word, const std::vector<std::string>& candidates) {
  // A third of the letters may be wrong, as people mistype short words less.
  std::size_t best = std::max<std::size_t>(1, word.size() / 3) + 1;
  std::string found;
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(word, candidate);
    if (distance < best) {
      best = distance;
      found = candidate;
    }
  }
  return found;
}

std::string shell_quoted(std::string_view text) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("-_./,:=+@%").find(c) != std::string_view::npos;
  };
  if (!text.empty() && std::all_of(text.begin(), text.end(), plain)) return std::string(text);
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

}  // namespace whatfits::cli
