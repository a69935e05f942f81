// The closed forms line by line, beside the replay.
#include <array>
#include <string_view>

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

using Align = Table::Align;
using Sums = std::array<Bytes, kCategories>;

Sums by_category(const std::vector<ClosedLine>& lines) {
  Sums sums{};
  for (const ClosedLine& line : lines) {
    for (int i = 0; i < kCategories; ++i) {
      if (line.category == name_of(static_cast<Category>(i))) sums[static_cast<std::size_t>(i)] += line.bytes;
    }
  }
  return sums;
}

void notes(const std::vector<std::string>& list, Session& session) {
  for (const std::string& note : list) session.paragraph(session.style.warn("note: ") + note, "  ");
}

// This account speaks in decimal GB, so its figures are given in both.
void general_section(const GeneralAccount& account, Session& session) {
  const Style& style = session.style;
  session.line(style.bold("1. The general account: shapes and first principles"));
  const bool given = account.parameters_formula == "given";  // the count of the model itself, not the account's standard one
  session.paragraph("N = " + (given ? std::string() : account.parameters_formula + " = ") + with_commas(account.parameters) +
                        " parameters; " + std::to_string(account.bytes_per_activation) +
                        " bytes a saved value. B batch, T tokens, C width, L layers, NH heads, V vocabulary.",
                    "  ");
  Table table({{"", Align::left}, {"formula", Align::left}, {"MiB", Align::right}, {"GB (10^9)", Align::right}});
  for (const ClosedLine& line : account.lines) {
    if (line.bytes > 0) table.row({line.label, line.formula, mib(line.bytes), decimal_gb(line.bytes)});
  }
  table.rule();
  table.row({"grows with N", "", mib(account.state), decimal_gb(account.state)});
  table.row({"grows with B", "", mib(account.activations), decimal_gb(account.activations)});
  table.row({style.bold("total"), "", style.bold(mib(account.total)), style.bold(decimal_gb(account.total))});
  session.out += table.text(2);
  notes(account.notes, session);
}

void measured_section(const ClosedEstimate& measured, const Config& config, Session& session) {
  const Style& style = session.style;
  session.line(style.bold("2. The measured calculator: one measured run of GPT-2, scaled"));
  Table table({{"", Align::left}, {"formula", Align::left}, {"MiB", Align::right}});
  for (const ClosedLine& line : measured.lines) table.row({line.label, line.formula, mib(line.bytes)});
  table.rule();
  table.row({style.bold("allocated"), "", style.bold(mib(measured.allocated))});
  table.row({"reserved, by the measured ratio", "", mib(measured.reserved)});
  session.out += table.text(2);
  session.paragraph("Largest batch on " + config.device.name + ": " + with_commas(measured.batch_by_allocated) + " by allocated, " +
                        with_commas(measured.batch_by_reserved) + " by reserved.",
                    "  ");
  notes(measured.notes, session);
}

void comparison(const Explanation& answer, Session& session) {
  const Style& style = session.style;
  session.line(style.bold("3. Side by side, MiB at the peak"));
  const Sums general = by_category(answer.general.lines);
  const Sums measured = by_category(answer.measured.lines);
  const Sums& replay = answer.report.ledger.categories;
  Table table({{"", Align::left}, {"general", Align::right}, {"measured", Align::right}, {"replay", Align::right}});
  const auto figure = [](Bytes bytes) { return bytes == 0 ? std::string("-") : mib(bytes); };
  for (std::size_t i = 0; i < kCategories; ++i) {
    if (general[i] + measured[i] + replay[i] == 0) continue;
    table.row({category_words(static_cast<Category>(i)), figure(general[i]), figure(measured[i]), figure(replay[i])});
  }
  table.rule();
  const Trace& trace = answer.report.trace;
  table.row({style.bold("allocated"), mib(answer.general.total), mib(answer.measured.allocated), style.bold(mib(trace.peak.allocated))});
  table.row({"reserved", "-", mib(answer.measured.reserved), style.bold(mib(trace.peak.reserved))});
  session.out += table.text(2);
  session.line();
  session.paragraph(
      "The replay runs the training step over an allocator like PyTorch's and is exact where the closed forms are not: it knows when "
      "each tensor dies, what operators need in between, and how the allocator's pieces fall.");
  if (trace.oom)
    session.paragraph(style.bad("The replay runs out of memory") + " in " + place(trace.oom->at) + "; its figures are those up to there.");
}

}  // namespace

int run_explain(const Arguments& arguments, Session& session) {
  if (arguments.sizes) return run_sizes(arguments, session);
  const Config config = checked(read_request(arguments.request));
  if (config.parallel) throw Failure("parallel: must be null: the closed forms are of one card");
  Explanation answer;
  {
    const Progress progress(session, "replaying");
    answer = explain(config);
  }
  if (arguments.json) {
    print_json(to_json(answer), session);
    return exit_status::ok;
  }
  session.line(session.style.bold(run_words(config)) + ", on " + config.device.name);
  session.line();
  general_section(answer.general, session);
  session.line();
  measured_section(answer.measured, config, session);
  session.line();
  comparison(answer, session);
  return exit_status::ok;
}

}  // namespace whatfits::cli
