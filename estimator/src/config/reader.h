// Reads one JSON object key by key and writes down everything that is wrong with it.
#pragma once

#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "config/names.h"
#include "config/text.h"
#include "whatfits/request.h"

namespace whatfits::config {

/// A key that is absent leaves the value as it was, and is fine. A key that is wrong adds a problem and also leaves it.
/// Every key asked for is allowed; `finish` names the others.
class Reader {
 public:
  /// `object` must be an object and outlive the reader. `prefix` is "" or the path with a dot, "device.".
  Reader(const nlohmann::ordered_json& object, std::string prefix, std::vector<Problem>& problems);

  /// The key's value, or null if it is absent. Marks the key as allowed.
  const nlohmann::ordered_json* find(std::string_view key);

  /// Each returns true if the key is there and right.
  bool integer(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t& out);
  bool boolean(std::string_view key, bool& out);
  bool text(std::string_view key, std::size_t longest, std::string& out);
  /// `out` gets the index of the word.
  bool word(std::string_view key, const Words& words, std::size_t& out);
  template <typename Enum>
  bool choice(std::string_view key, const Words& words, Enum& out) {
    std::size_t index = 0;
    if (!word(key, words, index)) return false;
    out = static_cast<Enum>(index);
    return true;
  }
  /// A version, of which only `supported` is replayed. Others that look like versions are told apart from nonsense.
  void version(std::string_view key, std::string_view supported);

  void not_allowed(std::string_view key, const nlohmann::ordered_json& value, std::string message);
  void unsupported(std::string_view key, const nlohmann::ordered_json& value, std::string message);
  void statement(std::string_view key, std::string message);

  /// Names every key that was not asked for.
  void finish();

 private:
  const nlohmann::ordered_json& object_;
  std::string prefix_;
  std::vector<Problem>& problems_;
  std::vector<std::string_view> allowed_;
};

/// "only a, b and c are supported so far"
std::string only_supported(const std::vector<std::string_view>& words);

}  // namespace whatfits::config
