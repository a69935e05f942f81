#include "config/reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "config/text.h"

namespace whatfits::config {
namespace {

// A whole number, however it is written. Doubles are compared as doubles first: 1e300 does not convert.
bool whole(const json& value, std::int64_t& out) {
  if (value.is_number_unsigned()) {
    const auto number = *value.get_ptr<const std::uint64_t*>();
    if (number > static_cast<std::uint64_t>(INT64_MAX)) return false;
    out = static_cast<std::int64_t>(number);
    return true;
  }
  if (value.is_number_integer()) {
    out = *value.get_ptr<const std::int64_t*>();
    return true;
  }
  if (const auto* number = value.get_ptr<const double*>()) {
    constexpr double exact = 9007199254740992.0;                                         // 2^53
    if (!(std::fabs(*number) <= exact) || *number != std::floor(*number)) return false;  // the negation catches NaN
    out = static_cast<std::int64_t>(*number);
    return true;
  }
  return false;
}

bool digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// 2.6, 4.48.0
bool looks_like_version(std::string_view text) {
  std::size_t parts = 0;
  while (true) {
    const std::size_t dot = text.find('.');
    const std::string_view part = text.substr(0, dot);
    if (!digits(part) || part.size() > 4 || ++parts > 3) return false;
    if (dot == std::string_view::npos) return true;
    text.remove_prefix(dot + 1);
  }
}

bool contains(const std::vector<std::string_view>& words, std::string_view word) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

}  // namespace

std::string only_supported(const std::vector<std::string_view>& words) {
  return "only " + listed(words, "and") + (words.size() == 1 ? " is" : " are") + " supported so far";
}

Reader::Reader(const json& object, std::string prefix, std::vector<Problem>& problems)
    : object_(object), prefix_(std::move(prefix)), problems_(problems) {}

const json* Reader::find(std::string_view key) {
  if (!contains(allowed_, key)) allowed_.push_back(key);
  const auto it = object_.find(key);
  return it == object_.end() ? nullptr : &*it;
}

bool Reader::integer(std::string_view key, std::int64_t low, std::int64_t high, std::int64_t& out) {
  const json* value = find(key);
  if (value == nullptr) return false;
  std::int64_t number = 0;
  if (whole(*value, number) && number >= low && number <= high) {
    out = number;
    return true;
  }
  std::string message = "must be a whole number from " + std::to_string(low) + " to " + std::to_string(high);
  if (const auto* quoted = value->get_ptr<const std::string*>(); quoted != nullptr && digits(*quoted)) {
    message += ", written without quotes";
  }
  not_allowed(key, *value, std::move(message));
  return false;
}

bool Reader::boolean(std::string_view key, bool& out) {
  const json* value = find(key);
  if (value == nullptr) return false;
  if (const auto* flag = value->get_ptr<const bool*>()) {
    out = *flag;
    return true;
  }
  not_allowed(key, *value, value->is_string() ? "must be true or false, written without quotes" : "must be true or false");
  return false;
}

bool Reader::text(std::string_view key, std::size_t longest, std::string& out) {
  const json* value = find(key);
  if (value == nullptr) return false;
  const auto* given = value->get_ptr<const std::string*>();
  // A value put together in memory can hold any bytes; what is kept here goes into reports.
  if (given == nullptr || given->empty() || given->size() > longest || invalid_utf8(*given) != std::string_view::npos ||
      has_control(*given)) {
    not_allowed(key, *value, "must be a string of 1 to " + std::to_string(longest) + " bytes of UTF-8 without control characters");
    return false;
  }
  out = *given;
  return true;
}

bool Reader::word(std::string_view key, const Words& words, std::size_t& out) {
  const json* value = find(key);
  if (value == nullptr) return false;
  const auto* given = value->get_ptr<const std::string*>();
  if (given != nullptr) {
    const auto it = std::find(words.now.begin(), words.now.end(), *given);
    if (it != words.now.end()) {
      out = static_cast<std::size_t>(it - words.now.begin());
      return true;
    }
    if (contains(words.later, *given)) {
      unsupported(key, *value, only_supported(words.now));
      return false;
    }
  }
  not_allowed(key, *value,
              (words.now.size() == 1 ? "must be " : "must be one of ") + listed(words.now, "or") +
                  (given == nullptr ? std::string() : did_you_mean(*given, words.now)));
  return false;
}

void Reader::version(std::string_view key, std::string_view supported) {
  const json* value = find(key);
  if (value == nullptr) return;
  const auto* given = value->get_ptr<const std::string*>();
  if (given != nullptr && *given == supported) return;
  if (given != nullptr && looks_like_version(*given)) return unsupported(key, *value, only_supported({supported}));
  not_allowed(key, *value, "must be a version in quotes, such as \"" + std::string(supported) + "\"");
}

void Reader::not_allowed(std::string_view key, const json& value, std::string message) {
  problems_.push_back({prefix_ + std::string(key), shown(value), std::move(message), Problem::Kind::not_allowed});
}

void Reader::unsupported(std::string_view key, const json& value, std::string message) {
  problems_.push_back({prefix_ + std::string(key), shown(value), std::move(message), Problem::Kind::unsupported});
}

void Reader::statement(std::string_view key, std::string message) {
  problems_.push_back({prefix_ + std::string(key), "", std::move(message), Problem::Kind::statement});
}

void Reader::finish() {
  for (const auto& item : object_.items()) {
    const std::string& key = item.key();
    if (contains(allowed_, key)) continue;
    const std::string hint = did_you_mean(key, allowed_);
    statement(shown(std::string_view(key)), "is not a key" + (hint.empty() ? "; allowed are " + listed(allowed_, "and") : hint));
  }
}

}  // namespace whatfits::config
