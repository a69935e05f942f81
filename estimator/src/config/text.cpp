#include "config/text.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

namespace whatfits::config {
namespace {

constexpr std::size_t kShownBytes = 60;

unsigned byte_at(std::string_view text, std::size_t i) { return static_cast<unsigned char>(text[i]); }

// Length of the well-formed UTF-8 sequence at `i`, 0 if there is none (Unicode, table 3-7).
std::size_t sequence_length(std::string_view text, std::size_t i) {
  const unsigned lead = byte_at(text, i);
  if (lead < 0x80) return 1;
  std::size_t length = 0;
  unsigned low = 0x80;
  unsigned high = 0xBF;
  if (lead >= 0xC2 && lead <= 0xDF) {
    length = 2;
  } else if (lead >= 0xE0 && lead <= 0xEF) {
    length = 3;
    if (lead == 0xE0) low = 0xA0;
    if (lead == 0xED) high = 0x9F;
  } else if (lead >= 0xF0 && lead <= 0xF4) {
    length = 4;
    if (lead == 0xF0) low = 0x90;
    if (lead == 0xF4) high = 0x8F;
  }
  if (length == 0 || text.size() - i < length) return 0;
  if (byte_at(text, i + 1) < low || byte_at(text, i + 1) > high) return 0;
  for (std::size_t k = 2; k < length; ++k) {
    if (byte_at(text, i + k) < 0x80 || byte_at(text, i + k) > 0xBF) return 0;
  }
  return length;
}

std::string escaped(unsigned code) {
  constexpr char digits[] = "0123456789abcdef";
  return std::string("\\u00") + digits[code >> 4 & 15] + digits[code & 15];
}

std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> two_back;
  std::vector<std::size_t> back(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) back[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    std::vector<std::size_t> row(b.size() + 1, i);
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({back[j] + 1, row[j - 1] + 1, back[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];  // fp23 is one slip from fp32
      if (swapped) row[j] = std::min(row[j], two_back[j - 2] + 1);
    }
    two_back = std::move(back);
    back = std::move(row);
  }
  return back[b.size()];
}

// Without what people leave out or write otherwise: rtx3060 is rtx-3060, seq_len is seq-len.
std::string bare(std::string_view word) {
  std::string out;
  for (const char c : word) {
    if (c != '-' && c != '_' && c != '.') out += c;
  }
  return out;
}

}  // namespace

std::size_t invalid_utf8(std::string_view text) {
  for (std::size_t i = 0; i < text.size();) {
    const std::size_t length = sequence_length(text, i);
    if (length == 0) return i;
    i += length;
  }
  return std::string_view::npos;
}

bool has_control(std::string_view text) {
  for (std::size_t i = 0; i < text.size(); ++i) {
    const unsigned code = byte_at(text, i);
    if (code < 0x20 || code == 0x7F) return true;
    if (code == 0xC2 && i + 1 < text.size() && byte_at(text, i + 1) < 0xA0) return true;
  }
  return false;
}

std::string shown(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size();) {
    if (out.size() >= kShownBytes) return out + "…";
    const std::size_t length = sequence_length(text, i);
    const unsigned code = byte_at(text, i);
    if (length == 0) {
      out += "\xEF\xBF\xBD";  // the replacement character
    } else if (length == 1 && (code < 0x20 || code == 0x7F)) {
      out += escaped(code);
    } else if (length == 2 && code == 0xC2 && byte_at(text, i + 1) < 0xA0) {
      out += escaped(byte_at(text, i + 1));  // C1 controls: some terminals act on them
    } else {
      out += text.substr(i, length);
    }
    i += std::max<std::size_t>(length, 1);
  }
  return out;
}

std::string shown(const nlohmann::ordered_json& value) {
  if (const auto* text = value.get_ptr<const std::string*>()) return shown(std::string_view(*text));
  if (const auto* number = value.get_ptr<const double*>(); number != nullptr && !std::isfinite(*number)) {
    return std::isnan(*number) ? "NaN" : *number > 0 ? "Infinity" : "-Infinity";
  }
  return shown(std::string_view(value.dump(-1, ' ', false, nlohmann::ordered_json::error_handler_t::replace)));
}

std::string listed(const std::vector<std::string_view>& words, std::string_view last_joint) {
  std::string out;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i > 0 && i + 1 == words.size()) {
      out += ' ';
      out += last_joint;
      out += ' ';
    } else if (i > 0) {
      out += ", ";
    }
    out += words[i];
  }
  return out;
}

std::string_view nearest(std::string_view word, const std::vector<std::string_view>& candidates) {
  constexpr std::size_t longest = 64;
  if (word.empty() || word.size() > longest) return {};
  const std::string asked = bare(word);
  std::string_view best;
  std::size_t best_distance = longest;
  for (const std::string_view candidate : candidates) {
    const std::string known = bare(candidate);
    std::size_t distance = edit_distance(asked, known);
    // batch_size for batch, rtx4090-24gb for a card: one contains the other. Cut short, rtx3060 is closer than rtx-3090 is.
    if (asked.size() >= 3 && known.size() >= 3) {
      if (known.compare(0, asked.size(), asked) == 0) distance = 0;
      if (asked.compare(0, known.size(), known) == 0) distance = std::min<std::size_t>(distance, 2);
    }
    const std::size_t allowed = std::max<std::size_t>(1, std::min(word.size(), candidate.size()) * 2 / 5);
    if (distance <= allowed && distance < best_distance) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string did_you_mean(std::string_view word, const std::vector<std::string_view>& candidates) {
  const std::string_view near = nearest(word, candidates);
  return near.empty() ? std::string() : "; did you mean " + std::string(near) + "?";
}

}  // namespace whatfits::config
