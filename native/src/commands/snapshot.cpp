// What a measured snapshot says by itself.
#include <vector>

#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/compare_counters.h"
#include "commands/read_snapshot.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/moment.h"

namespace whatfits::cli {

using namespace whatfits::snapshot;  // NOLINT(google-build-using-namespace): this file is about nothing else

int run_snapshot(const Arguments& arguments, Session& session) {
  if (arguments.snapshot && json_object_of(*arguments.snapshot)) {
    throw Failure(printable(*arguments.snapshot) +
                  ": is JSON: this command shows recordings of torch.cuda.memory._dump_snapshot(); whatfits compare takes reports and "
                  "what whatfits measure wrote");
  }
  const Snapshot recording = read_snapshot(arguments, session);
  const std::size_t device = device_of(arguments, recording);
  PoolHistory history;
  const MeasuredRun run = follow(recording, device, &history);
  const std::size_t events = recording.traces[device].size();
  const std::size_t at = arguments.event      ? static_cast<std::size_t>(whole_number("--event", *arguments.event, events - 1))
                         : run.peak != kNever ? run.peak
                                              : events - 1;
  const MeasuredPool pool = history.at(recording.traces[device], at);
  if (arguments.json) {
    print_json(moment_json(recording, run, device, at, pool), session);
    return exit_status::ok;
  }

  const std::vector<Holder> list = holders(recording, run, at);
  const MeasuredPoint& point = run.points[at];

  const Style& style = session.style;
  session.line(style.bold((arguments.event ? "After event " : "At its peak, event ") + with_commas(std::uint64_t{at}) + ": " +
                          mib(point.allocated) + " MiB allocated, " + mib(point.reserved) + " MiB reserved"));
  const TraceEvent& event = recording.traces[device][at];
  session.line(style.dim(std::string(name_of(event.action)) + " of " + size_text(event.size) + " in " +
                         place_words(recording, event.stack) + "; the recording has " + with_commas(std::uint64_t{events}) + " events" +
                         (recording.events_seen[device] != events ? " of the file's " + with_commas(recording.events_seen[device]) : "")));
  session.line();
  Table table(
      {{"MiB", Table::Align::right}, {"share", Table::Align::right}, {"tensors", Table::Align::right}, {"made at", Table::Align::left}});
  constexpr std::size_t kShown = 20;
  Holder rest;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (i < kShown) {
      table.row({mib(list[i].bytes), percent(list[i].bytes, point.allocated), with_commas(list[i].tensors), printable(list[i].place)});
    } else {
      rest.bytes += list[i].bytes;
      rest.tensors += list[i].tensors;
    }
  }
  if (rest.tensors > 0) table.row({mib(rest.bytes), percent(rest.bytes, point.allocated), with_commas(rest.tensors), "other lines"});
  session.out += table.text(2);
  session.line();
  Table pools({{"pool", Table::Align::left},
               {"segments", Table::Align::right},
               {"reserved MiB", Table::Align::right},
               {"in use", Table::Align::right},
               {"free pieces", Table::Align::right},
               {"largest free", Table::Align::right}});
  for (const bool small : {false, true}) {
    const Pieces p = count_pieces(pool, small);
    pools.row({small ? "up to 1 MiB" : "over 1 MiB", with_commas(std::uint64_t{p.segments}), mib(p.reserved), mib(p.used),
               with_commas(std::uint64_t{p.free_pieces}), mib(p.largest_free)});
  }
  session.out += pools.text(2);
  session.line();
  session.line("At the end " + mib(run.points.back().allocated) + " MiB are allocated, " + mib(run.points.back().reserved) +
               " MiB reserved." +
               (run.retries.empty()
                    ? ""
                    : " " + with_commas(std::uint64_t{run.retries.size()}) + " times cached segments were given back to make room."));
  failures_section(run, recording, device, session);
  return exit_status::ok;
}

}  // namespace whatfits::cli
