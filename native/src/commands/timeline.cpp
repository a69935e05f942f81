// One step event by event: plot, picture or data.
#include <algorithm>

#include "cli/failure.h"
#include "cli/files.h"
#include "commands/commands.h"
#include "commands/views.h"
#include "draw/plot.h"
#include "draw/svg.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/snapshot_writer.h"

namespace whatfits::cli {
namespace {

std::string step_words(int step) { return step == 0 ? "before the first step" : "step " + std::to_string(step); }

const TimelineRow& peak_row(const Timeline& timeline) {
  return *std::max_element(timeline.rows.begin(), timeline.rows.end(),
                           [](const TimelineRow& a, const TimelineRow& b) { return a.counters.allocated < b.counters.allocated; });
}

std::string peak_place(const Timeline& timeline) {
  const TimelineRow& row = peak_row(timeline);
  return place({timeline.step, row.phase, row.layer, row.op, row.event, row.bytes});
}

// What each phase reaches and leaves.
std::string phase_table(const Timeline& timeline, const Session& session) {
  using Align = Table::Align;
  Table table({{"phase", Align::left},
               {"events", Align::right},
               {"highest MiB", Align::right},
               {"at the end", Align::right},
               {"reserved", Align::right}});
  const auto& rows = timeline.rows;
  for (std::size_t begin = 0; begin < rows.size();) {
    std::size_t end = begin;
    Bytes highest = 0;
    for (; end < rows.size() && rows[end].phase == rows[begin].phase; ++end) highest = std::max(highest, rows[end].counters.allocated);
    const bool top = highest == peak_row(timeline).counters.allocated;
    const std::string figure = mib(highest);
    table.row({phase_words(rows[begin].phase), with_commas(std::uint64_t{end - begin}), top ? session.style.bold(figure) : figure,
               mib(rows[end - 1].counters.allocated), mib(rows[end - 1].counters.reserved)});
    begin = end;
  }
  return table.text(2);
}

}  // namespace

int run_timeline(const Arguments& arguments, Session& session) {
  const Config config = checked(read_request(arguments.request));
  needs_replay(config, "timeline");
  int step = -1;
  if (arguments.step) step = static_cast<int>(whole_number("--step", *arguments.step, static_cast<std::uint64_t>(config.steps)));
  if (arguments.pickle) {
    std::string file;
    snapshot::write_snapshot(config, [&](std::string_view piece) { file += piece; });
    write_file(*arguments.pickle, file);
    if (*arguments.pickle != "-" && !arguments.json) session.line("Wrote " + printable(*arguments.pickle));
    if (!arguments.svg && !arguments.json) return exit_status::ok;
  }
  Timeline answer;
  {
    const Progress progress(session, "replaying");
    answer = timeline(config, step);
  }
  const Bytes free = static_cast<Bytes>(config.device.free_mib) * MiB;
  const std::string title = "Memory of " + step_words(answer.step) + ": " + run_words(config);
  if (arguments.svg) {
    if (answer.rows.empty())
      throw Failure("--step: \"" + std::to_string(answer.step) + "\" has nothing to draw: no tensor is made or freed in it");
    write_file(*arguments.svg, svg_picture(answer, free, {title, peak_place(answer), config.device.name}));
  }
  if (arguments.json) {
    print_json(to_json(answer), session);
    return exit_status::ok;
  }
  if (arguments.svg) {
    if (*arguments.svg != "-") session.line("Wrote " + printable(*arguments.svg));
    return exit_status::ok;
  }

  const Style& style = session.style;
  session.line(style.bold(title));
  session.line(style.dim("filled: allocated; ─ reserved; · free on " + config.device.name + " (" + mib(free) +
                         " MiB), where near; left to right: each allocation and free"));
  session.line();
  if (answer.rows.empty()) {
    session.line("Nothing is made or freed here.");
    return exit_status::ok;
  }
  PlotSize size;
  size.width = std::min<std::size_t>(session.width, 200);
  session.out += terminal_plot(answer, free, size, style);
  const TimelineRow& peak = peak_row(answer);
  session.line();
  session.paragraph("The peak is " + mib(peak.counters.allocated) + " MiB at event " + with_commas(peak.event) + ", in " +
                    peak_place(answer) + ": it asks for " + size_text(peak.bytes) + " (" + answer.labels.at(peak.label) + ").");
  if (answer.oom) {
    session.line(style.bold(style.bad("Then memory runs out")) + " in " + place(answer.oom->at));
    session.paragraph(oom_sentence(*answer.oom), "  ");
  }
  session.line();
  session.out += phase_table(answer, session);
  return exit_status::ok;
}

}  // namespace whatfits::cli
