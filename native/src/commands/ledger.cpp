// Everything alive at one moment.
#include <algorithm>
#include <cstdint>
#include <tuple>

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

// Rows alike but for their layer.
struct Line {
  LedgerRow row;
  std::vector<std::int16_t> layers;  // ascending, each once
};

std::vector<Line> grouped(const std::vector<LedgerRow>& rows, bool every) {
  std::vector<Line> lines;
  for (const LedgerRow& row : rows) {
    const auto alike = [&](const Line& line) {
      return line.row.category == row.category && line.row.label == row.label && line.row.shape == row.shape &&
             line.row.dtype == row.dtype && line.row.formula == row.formula;
    };
    auto found = every ? lines.end() : std::find_if(lines.begin(), lines.end(), alike);
    if (found == lines.end()) {
      lines.push_back({row, {}});
      found = lines.end() - 1;
    } else {
      found->row.count += row.count;
      found->row.bytes += row.bytes;
      if (found->row.op != row.op) found->row.op = OpKind::none;
    }
    if (row.layer != kNoLayer) found->layers.push_back(row.layer);
  }
  for (Line& line : lines) {
    std::sort(line.layers.begin(), line.layers.end());
    line.layers.erase(std::unique(line.layers.begin(), line.layers.end()), line.layers.end());
  }
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tuple(a.row.category, UINT64_MAX - a.row.bytes) < std::tuple(b.row.category, UINT64_MAX - b.row.bytes);
  });
  return lines;
}

// "layers 0..11, softmax"
std::string owner(const Line& line) {
  std::string text;
  const auto& layers = line.layers;
  if (layers.size() == 1) {
    text = "layer " + std::to_string(layers.front());
  } else if (layers.size() > 1) {
    const bool dense = static_cast<std::size_t>(layers.back() - layers.front()) + 1 == layers.size();
    text = dense ? "layers " + std::to_string(layers.front()) + ".." + std::to_string(layers.back())
                 : std::to_string(layers.size()) + " layers";
  }
  if (line.row.op != OpKind::none) text += (text.empty() ? "" : ", ") + std::string(name_of(line.row.op));
  return text;
}

std::string shape_text(const LedgerRow& row) {
  if (row.category == Category::rounding || row.shape.empty()) return {};
  std::string text = "[";
  for (std::size_t i = 0; i < row.shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(row.shape[i]);
  return text + "]";
}

}  // namespace

int run_ledger(const Arguments& arguments, Session& session) {
  const Config config = checked(read_request(arguments.request));
  Ledger ledger;
  {
    const Progress progress(session, "replaying");
    ledger = arguments.at ? ledger_at(config, whole_number("--at", *arguments.at, UINT64_MAX)) : estimate(config).ledger;
  }
  if (arguments.json) {
    print_json(to_json(ledger), session);
    return exit_status::ok;
  }

  const Style& style = session.style;
  session.line(style.bold((arguments.at ? "Alive after event " : "Alive at the peak, event ") + with_commas(ledger.at.event)) + ": " +
               place(ledger.at) + (ledger.at.requested > 0 ? ", which asks for " + size_text(ledger.at.requested) : ""));
  session.line(style.dim(run_words(config) + ", on " + config.device.name));
  session.line();

  const std::vector<Line> lines = grouped(ledger.rows, arguments.all);
  Table table({{"", Table::Align::left},
               {"count", Table::Align::right},
               {"MiB", Table::Align::right},
               {"share", Table::Align::right},
               {"shape of one", Table::Align::left},
               {"type", Table::Align::left},
               {"bytes of one", Table::Align::left},
               {"owner", Table::Align::left}});
  const Category* open = nullptr;
  for (const Line& line : lines) {
    const LedgerRow& row = line.row;
    if (row.category == Category::rounding) continue;  // it closes the account
    if (open == nullptr || *open != row.category) {
      open = &row.category;
      const Bytes total = ledger.categories[static_cast<std::size_t>(row.category)];
      table.row(
          {style.bold(category_words(row.category)), "", style.bold(mib(total)), style.bold(percent(total, ledger.counters.allocated))});
    }
    table.row({"  " + row.label, with_commas(std::int64_t{row.count}), mib(row.bytes), "", shape_text(row), std::string(name_of(row.dtype)),
               row.formula, owner(line)});
  }
  const Bytes rounding = ledger.categories[static_cast<std::size_t>(Category::rounding)];
  table.rule();
  table.row({"rounding", "", mib(rounding), percent(rounding, ledger.counters.allocated), "what blocks have beyond the bytes asked for"});
  table.row({style.bold("allocated"), "", style.bold(mib(ledger.counters.allocated)), "100.0 %",
             with_commas(ledger.counters.allocated) + " bytes"});
  session.out += table.text();
  session.line();
  session.paragraph(
      "B sequences, T tokens, C width, NH heads, V vocabulary, P positions; the last factor is the bytes of one element. "
      "Reserved at that moment: " +
      mib(ledger.counters.reserved) + " MiB.");
  return exit_status::ok;
}

}  // namespace whatfits::cli
