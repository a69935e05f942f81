#include "support/cli.h"

#include <sys/wait.h>
#include <unistd.h>

#include <catch2/catch_test_macros.hpp>
#include <cstdlib>
#include <fstream>
#include <sstream>

namespace whatfits::testing {

namespace fs = std::filesystem;

std::string text_of(const fs::path& path) {
  std::ifstream file(path, std::ios::binary);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

const fs::path& scratch() {
  struct Folder {
    Folder() : path(fs::temp_directory_path() / ("whatfits-cli-test-" + std::to_string(::getpid()))) { fs::create_directories(path); }
    Folder(const Folder&) = delete;
    Folder& operator=(const Folder&) = delete;
    ~Folder() {
      std::error_code ignored;
      fs::remove_all(path, ignored);
    }
    fs::path path;
  };
  static const Folder folder;
  return folder.path;
}

fs::path written(const std::string& name, const std::string& text) {
  std::ofstream(scratch() / name, std::ios::binary) << text;
  return scratch() / name;
}

Result run_cli(const std::string& words, const std::string& input, const std::string& before) {
  const fs::path in = written("in", input);
  const fs::path out = scratch() / "out";
  const fs::path err = scratch() / "err";
  const std::string command = "cd '" + scratch().string() + "' && " + before + " '" WHATFITS_BINARY "' " + words;
  const std::string redirected = "{ " + command + "\n} <'" + in.string() + "' >'" + out.string() + "' 2>'" + err.string() + "'";
  const int raw = std::system(redirected.c_str());
  return {WIFEXITED(raw) ? WEXITSTATUS(raw) : -1, text_of(out), text_of(err)};
}

bool has(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

std::string first_line(const std::string& text) { return text.substr(0, text.find('\n')); }

void refused(const std::string& words, const std::string& line, const std::string& input) {
  INFO(words);
  const Result result = run_cli(words, input);
  CHECK(result.status == 2);
  CHECK(result.out.empty());
  CHECK(result.err == "whatfits: " + line + "\n");
}

}  // namespace whatfits::testing
