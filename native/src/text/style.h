// Colour, only where a person sees it. Every method returns its text unchanged when colour is off.
#pragma once

#include <string>
#include <string_view>

namespace whatfits::cli {

class Style {
 public:
  explicit Style(bool colour = false) : colour_(colour) {}

  bool colour() const { return colour_; }
  std::string bold(std::string_view text) const { return wrap("1", text); }
  std::string dim(std::string_view text) const { return wrap("2", text); }
  std::string good(std::string_view text) const { return wrap("32", text); }
  std::string warn(std::string_view text) const { return wrap("33", text); }
  std::string bad(std::string_view text) const { return wrap("31", text); }
  std::string accent(std::string_view text) const { return wrap("36", text); }
  /// `code` is what stands between "\x1b[" and "m".
  std::string wrap(const char* code, std::string_view text) const {
    if (!colour_ || text.empty()) return std::string(text);
    return "\x1b[" + std::string(code) + "m" + std::string(text) + "\x1b[0m";
  }

 private:
  bool colour_;
};

}  // namespace whatfits::cli
