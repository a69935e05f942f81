// What ends a command early: something of the user's that cannot be used. Exit status 2, one clear line each, nothing on stdout.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace whatfits::cli {

class Failure : public std::runtime_error {
 public:
  explicit Failure(std::string line) : Failure(std::vector<std::string>{std::move(line)}) {}
  explicit Failure(std::vector<std::string> lines) : std::runtime_error(lines.empty() ? "" : lines.front()), lines_(std::move(lines)) {}
  const std::vector<std::string>& lines() const { return lines_; }

 private:
  std::vector<std::string> lines_;
};

namespace exit_status {
inline constexpr int ok = 0;  ///< it fits, or the command did its job
inline constexpr int does_not_fit = 1;
inline constexpr int wrong = 2;  ///< the request is wrong, or a file cannot be read or written
}  // namespace exit_status

}  // namespace whatfits::cli
