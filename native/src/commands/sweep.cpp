// Grids: batches by sequence lengths, on one card or several; or each card's largest batch.
#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "cli/failure.h"
#include "cli/ranges.h"
#include "commands/cards.h"
#include "commands/commands.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/presets.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr std::size_t kMostCells = 16384;

// Every corner of the grid must be a request that holds.
Config checked_grid(json request, const std::vector<std::int64_t>& batches, const std::vector<std::int64_t>& seq_lens) {
  request["batch"] = *std::max_element(batches.begin(), batches.end());
  request["seq_len"] = *std::max_element(seq_lens.begin(), seq_lens.end());
  return checked(request);
}

// A word or a mark beside the colour, for those who see none.
std::string cell_text(const SweepCell& cell, Bytes free, const Style& style) {
  if (!cell.fits) return style.bad(cell.drifts ? "drifts  " : "oom  ");
  const bool tight = cell.peak.reserved / 9 * 10 > free;
  return tight ? style.warn(gib(cell.peak.reserved) + " !") : style.good(gib(cell.peak.reserved) + "  ");
}

std::string grid_table(const std::vector<SweepCell>& cells, const std::vector<std::int64_t>& seq_lens, Bytes free, const Style& style) {
  std::vector<Table::Column> columns{{"batch", Table::Align::right}};
  for (const std::int64_t length : seq_lens) columns.push_back({"T " + with_commas(length) + "  ", Table::Align::right});
  Table table(std::move(columns));
  for (std::size_t at = 0; at < cells.size(); at += seq_lens.size()) {
    std::vector<std::string> row{with_commas(cells[at].batch)};
    for (std::size_t i = at; i < std::min(cells.size(), at + seq_lens.size()); ++i) row.push_back(cell_text(cells[i], free, style));
    table.row(std::move(row));
  }
  return table.text(2);
}

int grids(const Arguments& arguments, Session& session, const std::vector<Card>& cards, const std::vector<std::int64_t>& batches,
          const std::vector<std::int64_t>& seq_lens) {
  std::vector<Config> configs;
  configs.reserve(cards.size());
  for (const Card& card : cards) configs.push_back(checked_grid(card.request, batches, seq_lens));
  const std::size_t each = batches.size() * seq_lens.size();
  if (each * cards.size() > kMostCells) {
    throw Failure("--batches: " + std::to_string(each * cards.size()) + " runs are too many: at most " + std::to_string(kMostCells) +
                  " (batches × lengths × devices)");
  }

  std::vector<std::vector<SweepCell>> answers;
  {
    Progress progress(session, "replaying " + with_commas(std::uint64_t{each * cards.size()}) + " runs");
    for (const Config& config : configs) {
      const std::size_t before = answers.size() * each;
      answers.push_back(sweep(config, batches, seq_lens, [&](std::size_t done) {
        progress.update(before + done, each * cards.size());
        return true;
      }));
    }
  }
  if (arguments.json) {
    if (!arguments.devices) {
      print_json(to_json(answers.front()), session);
      return exit_status::ok;
    }
    ordered_json out = ordered_json::array();
    for (std::size_t i = 0; i < cards.size(); ++i) out.push_back({{"device", cards[i].id}, {"cells", to_json(answers[i])}});
    print_json(out, session);
    return exit_status::ok;
  }

  const Style& style = session.style;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const Config& config = configs[i];
    const Bytes free = static_cast<Bytes>(config.device.free_mib) * MiB;
    if (i > 0) session.line();
    session.line(style.bold(config.device.name) + ", " + gib(free) + " GiB free: peak reserved in GiB");
    if (i == 0)
      session.line(style.dim(model_words(config) + ", " + std::string(to_string(config.precision)) + ", " +
                             std::string(to_string(config.optimizer))));
    session.line();
    session.out += grid_table(answers[i], seq_lens, free, style);
  }
  session.line();
  session.line("  " + style.warn("!") + " over 90 % of what is free   " + style.bad("oom") + " out of memory   T tokens per sequence");
  for (const auto& cells : answers) {
    if (std::any_of(cells.begin(), cells.end(), [](const SweepCell& cell) { return cell.drifts; })) {
      session.line("  " + style.bad("drifts") + " not out of memory, but still taking more of it after 64 steps");
      break;
    }
  }
  return exit_status::ok;
}

int largest_batches(const Arguments& arguments, Session& session, const std::vector<Card>& cards,
                    const std::vector<std::int64_t>& seq_lens) {
  std::vector<Config> configs;
  configs.reserve(cards.size());
  for (const Card& card : cards) configs.push_back(checked_grid(card.request, {1}, seq_lens));
  std::vector<std::vector<Fit>> answers;
  {
    Progress progress(session, "replaying " + with_commas(std::uint64_t{cards.size()}) + " cards");
    std::size_t done = 0;
    for (Config config : configs) {
      std::vector<Fit> row;
      for (const std::int64_t length : seq_lens) {
        config.seq_len = length;
        row.push_back(fit(config));
        progress.update(++done, cards.size() * seq_lens.size());
      }
      answers.push_back(std::move(row));
    }
  }
  if (arguments.json) {
    ordered_json out = ordered_json::array();
    for (std::size_t i = 0; i < cards.size(); ++i) {
      for (std::size_t j = 0; j < seq_lens.size(); ++j) {
        out.push_back({{"device", cards[i].id},
                       {"seq_len", seq_lens[j]},
                       {"largest_batch", answers[i][j].largest},
                       {"bound_by", answers[i][j].bound_by}});
      }
    }
    print_json(out, session);
    return exit_status::ok;
  }

  const Style& style = session.style;
  const Config& first = configs.front();
  session.line(style.bold("Largest batch by card") + style.dim(": " + model_words(first) + ", " + std::string(to_string(first.precision)) +
                                                               ", " + std::string(to_string(first.optimizer))));
  session.line();
  std::vector<Table::Column> columns{{"device", Table::Align::left}, {"", Table::Align::left}, {"free MiB", Table::Align::right}};
  for (const std::int64_t length : seq_lens) columns.push_back({"T " + with_commas(length), Table::Align::right});
  Table table(std::move(columns));
  bool assumed = false;
  for (std::size_t i = 0; i < cards.size(); ++i) {
    const Device& device = configs[i].device;
    assumed = assumed || device.free_assumed || device.total_assumed;
    std::vector<std::string> row{
        cards[i].id, device.name,
        mib(static_cast<Bytes>(device.free_mib) * MiB) + (device.free_assumed || device.total_assumed ? " ~" : "  ")};
    for (const Fit& fit : answers[i]) {
      row.push_back(fit.largest == 0 ? style.bad("none") : with_commas(fit.largest) + (fit.capped ? "+" : ""));
    }
    table.row(std::move(row));
  }
  session.out += table.text(2);
  session.line();
  session.line("  T tokens per sequence" + std::string(assumed ? "   ~ what is free is derived, not observed" : ""));
  return exit_status::ok;
}

}  // namespace

int run_sweep(const Arguments& arguments, Session& session) {
  const json request = read_request(arguments.request);
  std::vector<std::int64_t> batches{1, 2, 4, 8, 16, 32, 64};
  if (arguments.batches) batches = parse_ranges("--batches", *arguments.batches, limits::batch);
  const std::vector<Card> cards = cards_of(arguments, request);
  std::vector<std::int64_t> seq_lens;
  if (arguments.seq_lens) {
    seq_lens = parse_ranges("--seq-lens", *arguments.seq_lens, limits::positions);
  } else {
    seq_lens = {checked(cards.front().request).seq_len};
  }
  if (arguments.devices && !arguments.batches) return largest_batches(arguments, session, cards, seq_lens);
  return grids(arguments, session, cards, batches, seq_lens);
}

}  // namespace whatfits::cli
