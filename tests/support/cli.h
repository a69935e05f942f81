// The command line from outside: the binary is run in a folder of its own, and what it says, writes and returns is kept.
#pragma once

#include <filesystem>
#include <string>

namespace whatfits::testing {

std::string text_of(const std::filesystem::path& path);

/// A folder of this process's own, removed at its end.
const std::filesystem::path& scratch();

/// A file there.
std::filesystem::path written(const std::string& name, const std::string& text);

struct Result {
  int status = -1;
  std::string out;
  std::string err;
};

/// `words` as a shell would read them, `before` goes ahead of the program's name (variables).
Result run_cli(const std::string& words, const std::string& input = "", const std::string& before = "");

bool has(const std::string& text, const std::string& part);
std::string first_line(const std::string& text);

/// Wrong input: status 2, this line, nothing on standard output.
void refused(const std::string& words, const std::string& line, const std::string& input = "");

}  // namespace whatfits::testing
