// What to change, what it buys and what it costs.
#include <algorithm>

#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

using nlohmann::ordered_json;

// A value as one word of a shell command: text without its quotes.
std::string word(const ordered_json& value) { return shell_quoted(value.is_string() ? value.get<std::string>() : value.dump()); }

std::string flag_name(std::string key) {
  std::replace(key.begin(), key.end(), '_', '-');
  return "--" + key;
}

// Whatever the changed request says differently, as flags that can be pasted: a change may take two (batch and accumulation).
std::string as_flags(const Config& before, const Config& after) {
  const ordered_json old_request = request_json(before);
  const ordered_json new_request = request_json(after);
  std::string flags;
  const auto put = [&](const std::string& key, const ordered_json& value) {
    flags += (flags.empty() ? "" : " ") + flag_name(key) + " " + word(value);
  };
  for (const auto& [key, value] : new_request.items()) {
    const ordered_json& old_value = old_request.at(key);
    if (value == old_value) continue;
    if (!value.is_object() || !old_value.is_object() || key == "model" || key == "device") {
      put(key, value);
      continue;
    }
    for (const auto& [inner, inner_value] : value.items()) {
      if (inner_value != old_value.at(inner)) put(key + "." + inner, inner_value);
    }
  }
  return flags;
}

// 131 -> "1.31"
std::string times(int percent) {
  const std::string rest = std::to_string(percent % 100);
  return std::to_string(percent / 100) + "." + (rest.size() < 2 ? "0" : "") + rest;
}

}  // namespace

int run_advise(const Arguments& arguments, Session& session) {
  const Config config = checked(read_request(arguments.request));
  needs_replay(config, "advise");
  Advices answer;
  {
    const Progress progress(session, "replaying each change");
    answer = advise(config);
  }
  if (arguments.json) {
    print_json(to_json(answer), session);
    return exit_status::ok;
  }

  const Style& style = session.style;
  const Bytes free = static_cast<Bytes>(config.device.free_mib) * MiB;
  const std::string figures = mib(answer.needs.reserved) + " MiB reserved at its peak, " + mib(free) + " MiB free on " + config.device.name;
  session.line(style.bold(answer.fits ? style.good("Fits as it is: ") : style.bad("Does not fit as it is: ")) + figures);
  session.line(style.dim(run_words(config)) + "; largest batch as it is: " + with_commas(answer.largest_batch));
  session.line();
  if (answer.list.empty()) {
    session.line("No single change that this version replays saves anything here.");
    return exit_status::ok;
  }
  using Align = Table::Align;
  Table table({{"change", Align::left},
               {"saves MiB", Align::right},
               {"batch " + with_commas(config.batch), Align::left},
               {"largest batch", Align::right},
               {"time a token", Align::right},
               {"flag", Align::left}});
  for (const Advice& advice : answer.list) {
    table.row({advice.title, signed_mib(advice.saves), advice.fits ? style.good("fits") : style.bad("oom"),
               with_commas(advice.largest_batch), advice.time_percent == 0 ? "?" : "× " + times(advice.time_percent),
               style.accent(as_flags(config, advice.config))});
  }
  session.out += table.text(2);
  session.line();
  session.line("What each costs");
  for (const Advice& advice : answer.list) {
    if (advice.cost.empty()) continue;
    session.out += "  - ";
    session.out += wrapped(as_flags(config, advice.config) + ": " + advice.cost, std::min<std::size_t>(session.width, 110) - 4, "    ");
    session.line();
  }
  session.line();
  session.paragraph(
      "Time a token is what the operators compute and move, beside the request's own: no measurement. "
      "Savings are of reserved memory at the peak, each change by itself, on a card without limit; together they do not simply add up.");
  return exit_status::ok;
}

}  // namespace whatfits::cli
