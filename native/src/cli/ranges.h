// Lists of whole numbers as people write them: "1..32", "16,18,20..24".
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

namespace whatfits::cli {

/// Longest list; what is beyond it is a slip of the pen.
inline constexpr std::size_t kMostValues = 4096;

/// The values in the order given, each once. Throws Failure, naming `flag`, if the text is no such list, a number is below 1 or
/// above `most`, a range runs backwards, or there are more than kMostValues.
std::vector<std::int64_t> parse_ranges(std::string_view flag, std::string_view text, std::int64_t most);

}  // namespace whatfits::cli
