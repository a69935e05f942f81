#include "commands/cards.h"

#include <algorithm>

#include "cli/failure.h"
#include "commands/time.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/units.h"
#include "whatfits/estimate.h"
#include "whatfits/presets.h"

namespace whatfits::cli {

using nlohmann::json;
using nlohmann::ordered_json;

std::vector<Card> cards_of(const Arguments& arguments, const json& request) {
  if (!arguments.devices) return {{"", request}};
  std::vector<std::string> ids;
  if (*arguments.devices == "all") {
    for (const DevicePreset& preset : device_presets()) {
      if (preset.missing.empty() && preset.device.free_mib > 0) ids.push_back(preset.id);
    }
  } else {
    for (std::string_view rest = *arguments.devices;;) {
      const std::size_t comma = rest.find(',');
      ids.emplace_back(rest.substr(0, comma));
      if (comma == std::string_view::npos) break;
      rest.remove_prefix(comma + 1);
    }
  }
  std::vector<Card> cards;
  for (const std::string& id : ids) {
    cards.push_back({id, request});
    cards.back().request["device"] = id;
    cards.back().request.erase("calibration");  // of one card
  }
  return cards;
}

namespace {

struct Answer {
  std::string id;
  Config config;
  std::string refused;  ///< why the request does not hold on this card
  Fit fit;
  Pace pace;
  bool runs() const { return refused.empty() && fit.largest >= config.batch; }
};

std::vector<Answer> answers_of(const Arguments& arguments, Session& session) {
  const std::vector<Card> cards = cards_of(arguments, read_request(arguments.request));
  Progress progress(session, "replaying " + with_commas(std::uint64_t{cards.size()}) + " cards");
  std::vector<Answer> answers;
  for (const Card& card : cards) {
    Answer& answer = answers.emplace_back();
    answer.id = card.id;
    try {
      answer.config = checked(card.request);
    } catch (const Failure& failure) {
      // Bfloat16 on an old card, a name that is none: of one card this is the user's to mend, of all of them a row of the table.
      if (*arguments.devices != "all") throw;
      answer.refused = failure.lines().front();
      continue;
    }
    needs_replay(answer.config, "fit --devices");
    answer.fit = fit(answer.config);
    answer.pace = pace(record(answer.config), answer.config);
    progress.update(answers.size(), cards.size());
  }
  const bool all_refused = std::all_of(answers.begin(), answers.end(), [](const Answer& answer) { return !answer.refused.empty(); });
  if (all_refused) checked(cards.front().request);  // it is not the cards
  answers.erase(std::remove_if(answers.begin(), answers.end(), [](const Answer& answer) { return !answer.refused.empty(); }),
                answers.end());
  std::stable_sort(answers.begin(), answers.end(),
                   [](const Answer& a, const Answer& b) { return a.config.device.free_mib < b.config.device.free_mib; });
  return answers;
}

}  // namespace

int run_smallest_card(const Arguments& arguments, Session& session) {
  if (arguments.axis) throw Failure("--axis: cannot stand beside --devices, which asks for the request as it is");
  const std::vector<Answer> answers = answers_of(arguments, session);
  const auto smallest = std::find_if(answers.begin(), answers.end(), [](const Answer& answer) { return answer.runs(); });
  const int status = smallest != answers.end() ? exit_status::ok : exit_status::does_not_fit;
  if (arguments.json) {
    ordered_json list = ordered_json::array();
    for (const Answer& answer : answers) {
      ordered_json row{{"device", answer.id},
                       {"free_mib", answer.config.device.free_mib},
                       {"fits", answer.runs()},
                       {"largest_batch", answer.fit.largest}};
      row["tokens_per_second"] = nullptr;
      if (answer.pace.unknown.empty()) {
        row["tokens_per_second"] = {answer.pace.tokens_per_second(answer.pace.slowest_us),
                                    answer.pace.tokens_per_second(answer.pace.fastest_us)};
      }
      list.push_back(std::move(row));
    }
    print_json({{"smallest", smallest != answers.end() ? ordered_json(smallest->id) : ordered_json(nullptr)}, {"devices", std::move(list)}},
               session);
    return status;
  }

  const Style& style = session.style;
  const Config& any = answers.front().config;
  if (smallest != answers.end()) {
    session.line(style.bold(style.good("The smallest card that runs it: " + smallest->config.device.name)) + " (" + smallest->id + ", " +
                 with_commas(smallest->config.device.free_mib) + " MiB free)");
  } else {
    session.line(style.bold(style.bad("None of these cards runs it")));
  }
  session.line(style.dim(run_words(any)));
  session.line();
  using Align = Table::Align;
  Table table({{"device", Align::left},
               {"", Align::left},
               {"free MiB", Align::right},
               {"batch " + with_commas(any.batch), Align::left},
               {"largest batch", Align::right},
               {"tokens/s, about", Align::right}});
  for (const Answer& answer : answers) {
    const Device& device = answer.config.device;
    const Pace& pace = answer.pace;
    table.row(
        {answer.id, device.name, with_commas(device.free_mib) + (device.free_assumed || device.total_assumed ? " ~" : "  "),
         answer.runs() ? style.good("fits") : style.bad("does not fit"), answer.fit.largest == 0 ? "none" : with_commas(answer.fit.largest),
         pace.unknown.empty() ? about(pace.tokens_per_second(pace.slowest_us)) + " to " + about(pace.tokens_per_second(pace.fastest_us))
                              : "?"});
  }
  session.out += table.text(2);
  session.line();
  session.line("  ~ what is free is derived, not observed   tokens/s of the batch asked for, from the card's rates: see whatfits estimate");
  return status;
}

}  // namespace whatfits::cli
