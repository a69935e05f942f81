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

// As flags that can be pasted: a change may take two (batch and accumulation).
std::string as_flags(const Advice& advice) {
  std::string flags;
  for (const Setting& setting : advice.changes) {
    std::string key = setting.key;
    std::replace(key.begin(), key.end(), '_', '-');
    const ordered_json value = ordered_json::parse(setting.value);
    flags += (flags.empty() ? "--" : " --") + key + " " + shell_quoted(value.is_string() ? value.get<std::string>() : setting.value);
  }
  return flags;
}

// What a change does to the result, in a word or two.
std::string effect_words(Effect effect) {
  switch (effect) {
    case Effect::same:
      return "the same";
    case Effect::rounding:
      return "rounded more";
    case Effect::other:
      break;
  }
  return "another";
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
    session.line("There is no change left that this version replays.");
    return exit_status::ok;
  }
  using Align = Table::Align;
  // Pairs are said apart: a pair is no new idea, only what two of the others come to.
  for (const bool pair : {false, true}) {
    if (std::none_of(answer.list.begin(), answer.list.end(), [pair](const Advice& advice) { return advice.pair == pair; })) continue;
    Table table({{pair ? "two at once" : "change", Align::left},
                 {"saves MiB", Align::right},
                 {"batch " + with_commas(config.batch), Align::left},
                 {"largest batch", Align::right},
                 {"time a token", Align::right},
                 {"result", Align::left},
                 {"flag", Align::left}});
    for (const Advice& advice : answer.list) {
      if (advice.pair != pair) continue;
      table.row({advice.title, signed_mib(advice.saves), advice.fits ? style.good("fits") : style.bad("oom"),
                 with_commas(advice.largest_batch), advice.time_percent == 0 ? "?" : "× " + times(advice.time_percent),
                 effect_words(advice.effect), style.accent(as_flags(advice))});
    }
    session.out += table.text(2);
    session.line();
  }
  session.line("What each costs");
  for (const Advice& advice : answer.list) {
    if (advice.pair) continue;
    session.out += "  - ";
    session.out += wrapped(as_flags(advice) + ": " + advice.cost, std::min<std::size_t>(session.width, 110) - 4, "    ");
    session.line();
  }
  session.line();
  session.paragraph(
      "Time a token is what the operators compute and move, beside the request's own: no measurement. "
      "Savings are of reserved memory at the peak, on a card without limit; those of single changes do not simply add up. "
      "The pairs are the best two of each kind of result, of changes that save something on their own.");
  return exit_status::ok;
}

}  // namespace whatfits::cli
