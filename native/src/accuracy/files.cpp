#include "accuracy/files.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <stdexcept>

namespace whatfits::accuracy {
namespace {

using nlohmann::json;

std::ifstream opened(const std::string& folder, const std::string& name) {
  std::ifstream in(folder + "/" + name);
  if (!in) throw std::runtime_error(name + ": cannot be read");
  return in;
}

/// nlohmann's words without its "[json.exception.out_of_range.403] ".
std::string plain(const json::exception& error) {
  const std::string words = error.what();
  const std::size_t end = words.find("] ");
  return end == std::string::npos ? words : words.substr(end + 2);
}

void use_text(const std::string& name, const std::string& text, const std::function<void(const json&)>& use) {
  const json value = json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (value.is_discarded()) throw std::runtime_error(name + ": is no JSON");
  try {
    use(value);
  } catch (const json::exception& error) {
    throw std::runtime_error(name + ": " + plain(error));
  }
}

}  // namespace

std::vector<std::string> files_of(const std::string& folder, const std::string& part, const std::string& extension) {
  const std::filesystem::path path = std::filesystem::path(folder) / part;
  std::error_code error;
  if (!std::filesystem::is_directory(path, error)) throw std::runtime_error("it has no folder " + part);
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(path)) {
    if (entry.path().extension() == extension) names.push_back(part + "/" + entry.path().filename().string());
  }
  std::sort(names.begin(), names.end());
  return names;
}

void with_json(const std::string& folder, const std::string& name, const std::function<void(const json&)>& use) {
  std::ifstream in = opened(folder, name);
  use_text(name, {std::istreambuf_iterator<char>(in), {}}, use);
}

void with_lines(const std::string& folder, const std::string& name, const std::function<void(const json&)>& use) {
  std::ifstream in = opened(folder, name);
  std::size_t number = 0;
  for (std::string line; std::getline(in, line);) {
    ++number;
    if (!line.empty()) use_text(name + ", line " + std::to_string(number), line, use);
  }
}

}  // namespace whatfits::accuracy
