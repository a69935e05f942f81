#include "cli/ranges.h"

#include <charconv>
#include <string>
#include <unordered_set>

#include "cli/failure.h"
#include "text/text.h"

namespace whatfits::cli {
namespace {

bool number(std::string_view text, std::int64_t most, std::int64_t& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size() && out >= 1 && out <= most;
}

}  // namespace

std::vector<std::int64_t> parse_ranges(std::string_view flag, std::string_view text, std::int64_t most) {
  const auto refuse = [&](const std::string& must) -> Failure {
    return Failure(std::string(flag) + ": \"" + printable(text) + "\" is not allowed: " + must);
  };
  const std::string must = "must be whole numbers from 1 to " + std::to_string(most) + " and ranges of them, such as 1..32 or 16,18,20..24";

  std::vector<std::int64_t> values;
  std::unordered_set<std::int64_t> seen;
  for (std::string_view rest = text;;) {
    const std::size_t comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const std::size_t dots = part.find("..");
    std::int64_t low = 0;
    if (!number(part.substr(0, dots), most, low)) throw refuse(must);
    std::int64_t high = low;
    if (dots != std::string_view::npos && !number(part.substr(dots + 2), most, high)) throw refuse(must);
    if (high < low) throw refuse("the range " + printable(part) + " runs backwards");
    for (std::int64_t value = low; value <= high; ++value) {
      if (!seen.insert(value).second) continue;
      if (values.size() == kMostValues) throw refuse("must be at most " + std::to_string(kMostValues) + " values");
      values.push_back(value);
    }
    if (comma == std::string_view::npos) return values;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace whatfits::cli
