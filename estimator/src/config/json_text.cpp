#include "config/json_text.h"

#include <algorithm>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <utility>

#include "config/text.h"

namespace whatfits::config {
namespace {

Problem statement(std::string message) { return {"request", "", std::move(message), Problem::Kind::statement}; }

// Builds the value while the library's parser walks the text, and stops at the first level too deep: the parser keeps its own
// stack, but copying, printing and destroying a deep value would cost call stack.
class Check : public nlohmann::json_sax<json> {
 public:
  Check(std::string_view text, json& out, std::vector<Problem>& problems) : text_(text), out_(out), problems_(problems) {}

  bool null() override { return add(nullptr); }
  bool boolean(bool value) override { return add(value); }
  bool number_integer(number_integer_t value) override { return add(value); }
  bool number_unsigned(number_unsigned_t value) override { return add(value); }
  bool number_float(number_float_t value, const string_t&) override { return add(value); }
  bool string(string_t& value) override { return add(std::move(value)); }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(json::object()); }
  bool start_array(std::size_t) override { return enter(json::array()); }
  bool end_object() override { return leave(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    Level& level = levels_.back();
    if (!level.keys.insert(name).second) {
      problems_.push_back({path(name), "", "is given twice", Problem::Kind::statement});
    }
    level.current = name;
    return true;
  }

  // The position counts bytes read, the end of the text as one more.
  bool parse_error(std::size_t position, const std::string&, const nlohmann::detail::exception& error) override {
    constexpr int out_of_range = 406;
    if (error.id == out_of_range) {
      problems_.push_back(statement("has a number that no double can hold, " + where(position)));
    } else if (position > text_.size()) {
      problems_.push_back(statement("is not valid JSON: it ends too early"));
    } else {
      problems_.push_back(statement("is not valid JSON, " + where(position)));
    }
    return false;
  }

 private:
  struct Level {
    json* value;  // stays where it is: nothing is added beside it while it is open
    std::set<std::string> keys;
    std::string current;
  };

  json& place(json value) {
    if (levels_.empty()) return out_ = std::move(value);
    json& parent = *levels_.back().value;
    // Behind the others, without looking for it among them: who has a hundred thousand keys waits no longer for each.
    if (parent.is_object()) return parent.get_ref<json::object_t&>().emplace_back(levels_.back().current, std::move(value)).second;
    parent.push_back(std::move(value));
    return parent.back();
  }

  bool add(json value) {
    place(std::move(value));
    return true;
  }

  bool enter(json value) {
    if (levels_.size() >= static_cast<std::size_t>(limits::nesting)) {
      problems_.push_back(too_deep());
      return false;
    }
    levels_.push_back({&place(std::move(value)), {}, {}});
    return true;
  }

  bool leave() {
    levels_.pop_back();
    return true;
  }

  std::string path(const std::string& name) const {
    std::string out;
    for (std::size_t i = 0; i + 1 < levels_.size(); ++i) {
      if (!levels_[i].current.empty()) out += levels_[i].current + ".";
    }
    return shown(std::string_view(out + name));
  }

  // Line and column of the last byte read, and what leads up to it.
  std::string where(std::size_t position) const {
    constexpr std::size_t context = 20;
    const std::string_view before = text_.substr(0, std::min(position, text_.size()));
    const auto line = 1 + std::count(before.begin(), before.end(), '\n');
    const std::size_t start = before.rfind('\n') + 1;  // npos + 1 is 0
    const std::size_t column = before.size() - start;
    std::size_t from = column > context ? before.size() - context : start;
    while (from < before.size() && (static_cast<unsigned char>(before[from]) & 0xC0) == 0x80) ++from;  // a whole character
    return "line " + std::to_string(line) + ", column " + std::to_string(std::max<std::size_t>(column, 1)) + ", at \"" +
           shown(before.substr(from)) + "\"";
  }

  std::string_view text_;
  json& out_;
  std::vector<Problem>& problems_;
  std::vector<Level> levels_;
};

bool nests_within(const json& value, int depth) {
  if (!value.is_structured()) return true;
  if (depth == 0) return false;
  return std::all_of(value.begin(), value.end(), [depth](const json& item) { return nests_within(item, depth - 1); });
}

}  // namespace

Problem too_deep() { return statement("nests more than " + std::to_string(limits::nesting) + " deep"); }

bool nests_within_limit(const json& value) { return nests_within(value, limits::nesting); }

bool parse_text(std::string_view text, json& out, std::vector<Problem>& problems) {
  if (text.size() > limits::text_bytes) {
    problems.push_back(
        statement("has " + std::to_string(text.size()) + " bytes; at most " + std::to_string(limits::text_bytes) + " are allowed"));
    return false;
  }
  if (text.find_first_not_of(" \t\r\n") == std::string_view::npos) {
    problems.push_back(statement("is empty; it must be a JSON object with at least \"model\""));
    return false;
  }
  if (const std::size_t at = invalid_utf8(text); at != std::string_view::npos) {
    problems.push_back(statement("is not valid UTF-8 at byte " + std::to_string(at)));
    return false;
  }
  Check check(text, out, problems);
  return json::sax_parse(text, &check);
}

}  // namespace whatfits::config
