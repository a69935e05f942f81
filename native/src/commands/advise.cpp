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

namespace whatfits::cli {
namespace {

// The change as flags that can be pasted.
std::string as_flag(const Advice& advice) {
  std::string name = "--" + advice.key;
  std::replace(name.begin(), name.end(), '_', '-');
  const auto value = nlohmann::json::parse(advice.value, nullptr, /*allow_exceptions=*/false);
  if (value.is_object() && value.size() == 1) {  // {"expandable_segments": true} of --allocator
    std::string inner = value.begin().key();
    std::replace(inner.begin(), inner.end(), '_', '-');
    return name + "." + inner + " " + shell_quoted(value.begin()->is_string() ? value.begin()->get<std::string>() : value.begin()->dump());
  }
  return name + " " + shell_quoted(value.is_string() ? value.get<std::string>() : advice.value);
}

}  // namespace

int run_advise(const Arguments& arguments, Session& session) {
  const Config config = checked(read_request(arguments.request));
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
               {"flag", Align::left}});
  for (const Advice& advice : answer.list) {
    table.row({advice.title, signed_mib(advice.saves), advice.fits ? style.good("fits") : style.bad("oom"),
               with_commas(advice.largest_batch), style.accent(as_flag(advice))});
  }
  session.out += table.text(2);
  session.line();
  session.line("What each costs");
  for (const Advice& advice : answer.list) {
    if (advice.cost.empty()) continue;
    session.out += "  - ";
    session.out += wrapped(advice.title + ": " + advice.cost, std::min<std::size_t>(session.width, 110) - 4, "    ");
    session.line();
  }
  session.line();
  session.paragraph(
      "Savings are of reserved memory at the peak, each change by itself, on a card without limit; together they do not simply add up.");
  return exit_status::ok;
}

}  // namespace whatfits::cli
