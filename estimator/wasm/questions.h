// JSON in, JSON out: what crosses the border to JavaScript as text. Plain C++, so that the parity test runs the same questions
// natively.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "whatfits/config.h"
#include "whatfits/json.h"

namespace whatfits::wasm {

/// Values are part of the border: web/src/core/abi.ts has them too.
enum class Question : std::uint32_t {
  request = 0,
  estimate = 1,
  fit_batch = 2,
  fit_seq_len = 3,
  ledger = 4,
  advise = 5,
  explain = 6,
  presets = 7
};

struct Answer {
  bool ok = false;   ///< false: the text is {"problems": [...]}
  std::string text;  ///< valid JSON, valid UTF-8
};

/// For Question::ledger: at the peak, not at a given event.
inline constexpr std::uint64_t kAtPeak = ~std::uint64_t{0};

/// Answers a question about a request. `event` is for Question::ledger, `request` is not looked at for Question::presets.
Answer ask(Question question, std::string_view request, std::uint64_t event = kAtPeak);

/// Reads a request; without a Config the answer says what is wrong: {"problems": [{"key", "value", "message", "kind", "line"}]}.
bool read_request(std::string_view text, Config& config, Answer& problems);

/// The text of a value that is known to be fine.
std::string write(const Json& json);

/// {"request": ...}, every key written out.
std::string request_text(const Config& config);

Json presets_json();

}  // namespace whatfits::wasm
