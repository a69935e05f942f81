// What a measured snapshot says by itself.
#include <algorithm>
#include <map>
#include <vector>

#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/read_snapshot.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/units.h"
#include "whatfits/compare.h"
#include "whatfits/json.h"

namespace whatfits::cli {
namespace {

using namespace whatfits::snapshot;  // NOLINT(google-build-using-namespace): this file is about nothing else

struct Holder {
  std::string place;
  Bytes bytes = 0;
  std::uint64_t tensors = 0;
};

/// Who holds what is alive right after `event`, by the line that made it, the largest first.
std::vector<Holder> holders(const Snapshot& recording, const MeasuredRun& run, std::size_t event) {
  std::map<std::string, Holder> by_place;
  for (const Allocation& a : run.allocations) {
    if ((a.born != kNever && a.born > event) || (a.freed != kNever && a.freed <= event)) continue;
    Holder& holder = by_place[place_words(recording, a.stack)];
    holder.bytes += a.block;
    ++holder.tensors;
  }
  std::vector<Holder> list;
  for (auto& [place, holder] : by_place) list.push_back({place, holder.bytes, holder.tensors});
  std::stable_sort(list.begin(), list.end(), [](const Holder& a, const Holder& b) { return a.bytes > b.bytes; });
  return list;
}

struct Pieces {
  std::size_t segments = 0, blocks = 0, free_pieces = 0;
  Bytes reserved = 0, used = 0, largest_free = 0;
};

Pieces count(const MeasuredPool& pool, bool small) {
  Pieces pieces;
  for (const auto& [address, segment] : pool.segments()) {
    if (segment.small != small) continue;
    ++pieces.segments;
    pieces.reserved += segment.size;
    for (const auto& [at, block] : segment.blocks) {
      if (block.allocation != kNever || block.pending) {
        ++pieces.blocks;
        pieces.used += block.size;
      } else {
        ++pieces.free_pieces;
        pieces.largest_free = std::max(pieces.largest_free, block.size);
      }
    }
  }
  return pieces;
}

Json point_json(const MeasuredPoint& point) {
  Json out = Json::object();
  out["allocated"] = point.allocated;
  out["active"] = point.active;
  out["reserved"] = point.reserved;
  return out;
}

}  // namespace

int run_snapshot(const Arguments& arguments, Session& session) {
  const Snapshot recording = read_snapshot(arguments, session);
  const std::size_t device = device_of(arguments, recording);
  const MeasuredRun run = follow(recording, device);
  const std::size_t events = recording.traces[device].size();
  const std::size_t at = arguments.event      ? static_cast<std::size_t>(whole_number("--event", *arguments.event, events - 1))
                         : run.peak != kNever ? run.peak
                                              : events - 1;
  MeasuredPool pool;
  (void)follow(recording, device, at, &pool);
  const std::vector<Holder> list = holders(recording, run, at);
  const MeasuredPoint& point = run.points[at];

  if (arguments.json) {
    Json out = Json::object();
    out["events"] = events;
    out["events_in_file"] = recording.events_seen[device];
    out["allocations"] = run.allocations.size();
    out["at"] = at;
    out["counters"] = point_json(point);
    out["at_end"] = point_json(run.points.back());
    out["retries"] = run.retries.size();
    out["holders"] = Json::array();
    for (const Holder& holder : list)
      out["holders"].push_back({{"place", holder.place}, {"bytes", holder.bytes}, {"tensors", holder.tensors}});
    out["failures"] = Json::array();
    for (const snapshot::Failure& failure : run.failures) out["failures"].push_back(to_json(failure));
    out["segments"] = Json::array();
    for (const auto& [address, segment] : pool.segments()) {
      Json blocks = Json::array();
      for (const auto& [begin, block] : segment.blocks)
        blocks.push_back({{"address", begin},
                          {"size", block.size},
                          {"state", block.pending                ? "pending"
                                    : block.allocation != kNever ? "allocated"
                                                                 : "free"}});
      out["segments"].push_back({{"address", address}, {"size", segment.size}, {"small", segment.small}, {"blocks", std::move(blocks)}});
    }
    print_json(out, session);
    return exit_status::ok;
  }

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
      table.row({mib(list[i].bytes), percent(list[i].bytes, point.allocated), with_commas(list[i].tensors), list[i].place});
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
    const Pieces p = count(pool, small);
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
