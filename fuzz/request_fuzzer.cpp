// Any bytes as a request: answered in words or read, never a crash; what is read without problems comes back the same.
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string_view>

#include "whatfits/request.h"

namespace {

void require(bool condition, const char* what) {
  if (condition) return;
  std::fputs(what, stderr);
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace whatfits;
  const ParsedRequest parsed = parse_request(std::string_view(reinterpret_cast<const char*>(data), size));
  for (const Problem& problem : parsed.problems) {
    // Strict: a line goes into JSON reports, so it must be UTF-8. It must also be one line.
    const nlohmann::json line = to_line(problem);
    require(!line.dump(-1, ' ', false, nlohmann::json::error_handler_t::strict).empty(), "empty line");
    require(to_line(problem).find('\n') == std::string::npos, "a line break in a line");
  }
  if (!parsed.problems.empty()) return 0;
  require(bytes_bound(parsed.config) < limits::step_bytes, "out of bounds");
  const std::string written = request_json(parsed.config).dump();
  const ParsedRequest again = parse_request(written);
  require(again.problems.empty(), "what was written does not parse");
  require(again.config == parsed.config, "what was written is another request");
  require(request_json(again.config).dump() == written, "writing is not stable");
  return 0;
}
