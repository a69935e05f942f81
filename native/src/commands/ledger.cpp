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

// "exp_avg of h.3.mlp.c_fc.weight" of layer 3 -> "exp_avg of h.*.mlp.c_fc.weight".
std::string without_layer(const LedgerRow& row) {
  std::string label = row.label;
  if (row.layer == kNoLayer) return label;
  const std::string number = "." + std::to_string(row.layer) + ".";
  if (const std::size_t at = label.find(number); at != std::string::npos) label.replace(at, number.size(), ".*.");
  return label;
}

void finish_layers(std::vector<Line>& lines) {
  for (Line& line : lines) {
    std::sort(line.layers.begin(), line.layers.end());
    line.layers.erase(std::unique(line.layers.begin(), line.layers.end()), line.layers.end());
  }
}

// What is below a MiB a line is told in one, where there is more than one such line in a category.
std::vector<Line> with_small_folded(std::vector<Line> lines) {
  std::vector<Line> out;
  for (auto begin = lines.begin(); begin != lines.end();) {
    const Category category = begin->row.category;
    const auto end = std::find_if(begin, lines.end(), [&](const Line& line) { return line.row.category != category; });
    const auto small = std::find_if(begin, end, [](const Line& line) { return line.row.bytes < MiB; });  // largest first
    const bool fold = end - small > 1;
    out.insert(out.end(), begin, fold ? small : end);
    if (fold) {
      Line rest;
      rest.row.category = category;
      rest.row.label = std::to_string(end - small) + " kinds below 1 MiB";
      rest.row.count = 0;
      for (auto line = small; line != end; ++line) {
        rest.row.count += line->row.count;
        rest.row.bytes += line->row.bytes;
      }
      out.push_back(std::move(rest));
    }
    begin = end;
  }
  return out;
}

std::vector<Line> account(const std::vector<LedgerRow>& rows, bool every) {
  std::vector<Line> lines;
  for (const LedgerRow& row : rows) {
    if (row.bytes == 0 || row.category == Category::rounding) continue;  // rounding closes the account
    const std::string label = every ? row.label : without_layer(row);
    const auto alike = [&](const Line& line) {
      return line.row.category == row.category && line.row.label == label && line.row.shape == row.shape && line.row.dtype == row.dtype &&
             line.row.formula == row.formula;
    };
    auto found = every ? lines.end() : std::find_if(lines.begin(), lines.end(), alike);
    if (found == lines.end()) {
      lines.push_back({row, {}});
      found = lines.end() - 1;
      found->row.label = label;
    } else {
      found->row.count += row.count;
      found->row.bytes += row.bytes;
      if (found->row.op != row.op) found->row.op = OpKind::none;
    }
    if (row.layer != kNoLayer) found->layers.push_back(row.layer);
  }
  finish_layers(lines);
  std::stable_sort(lines.begin(), lines.end(), [](const Line& a, const Line& b) {
    return std::tuple(a.row.category, UINT64_MAX - a.row.bytes) < std::tuple(b.row.category, UINT64_MAX - b.row.bytes);
  });
  return every ? lines : with_small_folded(std::move(lines));
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
  std::string text = "[";
  for (std::size_t i = 0; i < row.shape.size(); ++i) text += (i == 0 ? "" : ", ") + std::to_string(row.shape[i]);
  return text + "]";
}

}  // namespace

int run_ledger(const Arguments& arguments, Session& session) {
  const Config config = checked(read_request(arguments.request));
  if (arguments.at) needs_replay(config, "ledger --at");
  Ledger ledger;
  {
    const Progress progress(session, "replaying");
    if (arguments.at) {
      const std::uint64_t event = whole_number("--at", *arguments.at, UINT64_MAX);
      ledger = ledger_at(config, event);
      if (ledger.at.event < event) throw Failure("--at: \"" + *arguments.at + "\" is past the last event, " + with_commas(ledger.at.event));
    } else {
      ledger = estimate(config).ledger;
    }
  }
  if (arguments.json) {
    print_json(to_json(ledger), session);
    return exit_status::ok;
  }

  const Style& style = session.style;
  if (config.engine != Engine::torch) {
    session.line(style.bold(config.engine == Engine::llm_c ? "What llm.c allocates" : "What the closed form counts"));
  } else {
    session.line(style.bold((arguments.at ? "Alive after event " : "Alive at the peak, event ") + with_commas(ledger.at.event)) + ": " +
                 place(ledger.at) + (ledger.at.requested > 0 ? ", which asks for " + size_text(ledger.at.requested) : ""));
  }
  session.line(style.dim(run_words(config) + ", on " + config.device.name));
  session.line();

  const std::vector<Line> lines = account(ledger.rows, arguments.all);
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
    if (open == nullptr || *open != row.category) {
      open = &row.category;
      const Bytes total = ledger.categories[static_cast<std::size_t>(row.category)];
      table.row(
          {style.bold(category_words(row.category)), "", style.bold(mib(total)), style.bold(percent(total, ledger.counters.allocated))});
    }
    // Folded lines and those of a formula have no one shape.
    const bool one_shape = config.engine == Engine::torch && row.op != OpKind::none;
    table.row({"  " + row.label, with_commas(std::int64_t{row.count}), mib(row.bytes), "", one_shape ? shape_text(row) : "",
               one_shape ? std::string(name_of(row.dtype)) : "", row.formula, owner(line)});
  }
  const Bytes rounding = ledger.categories[static_cast<std::size_t>(Category::rounding)];
  table.rule();
  table.row({"rounding", "", mib(rounding), percent(rounding, ledger.counters.allocated)});
  table.row({style.bold("allocated"), "", style.bold(mib(ledger.counters.allocated)), "100.0 %",
             with_commas(ledger.counters.allocated) + " bytes"});
  session.out += table.text();
  session.line();
  session.paragraph(
      std::string("B sequences, T tokens, C width, NH heads, V vocabulary, P positions") +
      (config.engine != Engine::torch ? ", L layers, N parameters" : "") +
      "; the last factor is the bytes of one element. Rounding is what blocks have beyond the bytes asked for. Reserved at that moment: " +
      mib(ledger.counters.reserved) + " MiB.");
  if (!arguments.all && config.engine == Engine::torch)
    session.line("Tensor by tensor: " + style.accent("whatfits ledger" + arguments.request.as_words() + " --all"));
  return exit_status::ok;
}

}  // namespace whatfits::cli
