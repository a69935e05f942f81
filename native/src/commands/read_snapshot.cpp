#include "commands/read_snapshot.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <vector>

#include "cli/failure.h"
#include "commands/views.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/moment.h"
#include "whatfits/report.h"

namespace whatfits::cli {

namespace {

/// "1000..5000" as event numbers; either side may be missing.
void parse_events(const std::string& text, snapshot::ReadLimits& limits) {
  const std::size_t dots = text.find("..");
  if (dots == std::string::npos)
    throw Failure("--events: \"" + printable(text) + "\" is not allowed: must be FROM..TO, for example 1000..5000");
  const std::string from = text.substr(0, dots);
  const std::string to = text.substr(dots + 2);
  constexpr std::uint64_t kMost = std::uint64_t{1} << 40;
  if (!from.empty()) limits.first_event = whole_number("--events", from, kMost);
  if (!to.empty()) limits.last_event = whole_number("--events", to, kMost);
  if (limits.last_event < limits.first_event) throw Failure("--events: \"" + printable(text) + "\" is not allowed: runs backwards");
}

}  // namespace

snapshot::Snapshot read_snapshot(const Arguments& arguments, const Session& session) {
  if (!arguments.snapshot) throw Failure("SNAPSHOT: name a file that torch.cuda.memory._dump_snapshot() wrote");
  snapshot::ReadLimits limits;
  if (arguments.events) parse_events(*arguments.events, limits);
  return read_snapshot(*arguments.snapshot, limits, session);
}

snapshot::Snapshot read_snapshot(const std::string& path, const snapshot::ReadLimits& limits, const Session& session) {
  const std::string name = printable(path);
  const std::unique_ptr<gzFile_s, int (*)(gzFile)> file(gzopen(path.c_str(), "rbe"), gzclose);  // plain files pass through
  if (!file) throw Failure(name + ": cannot be read: " + std::strerror(errno));
  gzbuffer(file.get(), 1 << 18);
  Progress progress(session, "reading " + name);
  snapshot::SnapshotReader reader(limits);
  std::vector<char> piece(std::size_t{1} << 20);
  for (;;) {
    const int got = gzread(file.get(), piece.data(), static_cast<unsigned>(piece.size()));
    if (got < 0) {
      int number = 0;
      const char* const message = gzerror(file.get(), &number);
      throw Failure(name + ": cannot be read: " + (number == Z_ERRNO ? std::strerror(errno) : message));
    }
    if (got == 0 || !reader.feed(piece.data(), static_cast<std::size_t>(got))) break;
  }
  auto result = reader.finish();
  if (!result) throw Failure(name + ": byte " + with_commas(reader.error()->offset) + ": " + reader.error()->message);
  return std::move(*result);
}

std::size_t device_of(const Arguments& arguments, const snapshot::Snapshot& snapshot) {
  const auto& traces = snapshot.traces;
  if (arguments.device_index) {
    const std::uint64_t device = whole_number("--cuda-device", *arguments.device_index, 1023);
    if (device >= traces.size() || traces[device].empty())
      throw Failure("--cuda-device: \"" + std::to_string(device) + "\" has no events in this recording");
    return device;
  }
  const auto found = std::find_if(traces.begin(), traces.end(), [](const auto& trace) { return !trace.empty(); });
  if (found == traces.end())
    throw Failure("SNAPSHOT: has no events: call torch.cuda.memory._record_memory_history() before the run that is to be seen");
  return static_cast<std::size_t>(found - traces.begin());
}

std::string place_words(const snapshot::Snapshot& snapshot, snapshot::StackId stack) { return printable(place_of(snapshot, stack)); }

void failures_section(const snapshot::MeasuredRun& run, const snapshot::Snapshot& snapshot, std::size_t device, Session& session) {
  for (const snapshot::Failure& failure : run.failures) {
    const snapshot::TraceEvent& event = snapshot.traces[device][failure.event];
    session.line();
    session.line(session.style.bold(session.style.bad("Memory ran out")) + " at event " + with_commas(std::uint64_t{failure.event}) +
                 ", in " + place_words(snapshot, event.stack));
    session.paragraph("It " + explain(failure), "  ");
  }
}

}  // namespace whatfits::cli
