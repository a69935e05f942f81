// The C border of the second module, which reads measured snapshots; a page loads it when it is given one. One recording an
// instance: the loader makes an instance for each file, whose memory goes with it. As in exports.cpp, 0 means that the text is
// {"problems": [...]}, or that nothing has been read.
#include <memory>

#include "answers.h"
#include "recording.h"

namespace {

using namespace whatfits;
using namespace whatfits::wasm;

std::unique_ptr<Recording> recording;

bool is_read() { return recording && recording->read(); }

}  // namespace

/// Reading holds at most `memory_mib`; events of each device outside of [first, last] are counted, not kept. last < 0: to the end.
WF_EXPORT(wf_snapshot_begin) void wf_snapshot_begin(std::uint32_t memory_mib, double first, double last) {
  show_none();
  recording =
      std::make_unique<Recording>(snapshot::ReadLimits{static_cast<std::size_t>(memory_mib * MiB), event_of(first), event_of(last)});
}

/// The file's next bytes; 0 once something is wrong.
WF_EXPORT(wf_snapshot_feed) std::uint32_t wf_snapshot_feed(const void* bytes, std::uint32_t size) {
  return recording && recording->feed(bytes, size) ? 1 : 0;
}

WF_EXPORT(wf_snapshot_finish) std::uint32_t wf_snapshot_finish() {
  if (!recording) return 0;
  Answer answer = recording->finish();
  return say(answer.ok, std::move(answer.text));
}

WF_EXPORT(wf_snapshot_at) std::uint32_t wf_snapshot_at(double event) { return is_read() ? say(true, recording->at(index_of(event))) : 0; }

WF_EXPORT(wf_snapshot_columns) std::uint32_t wf_snapshot_columns(double begin, double end, std::uint32_t width) {
  return is_read() ? show(recording->columns(index_of(begin), index_of(end), width < 65536 ? width : 65536)) : 0;
}

WF_EXPORT(wf_snapshot_compare) std::uint32_t wf_snapshot_compare(const char* request, std::uint32_t length) {
  if (!is_read()) return 0;
  Answer answer = recording->compare({request, length});
  return say(answer.ok, std::move(answer.text));
}
