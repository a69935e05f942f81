// Any bytes as a snapshot, in pieces of any size: read or refused in words, never a crash; what is read can be followed.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>

#include "whatfits/bytes.h"
#include "whatfits/measured.h"
#include "whatfits/snapshot.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace whatfits;
  using namespace whatfits::snapshot;
  if (size == 0) return 0;
  const std::size_t piece = data[0] % 16U + 1U;
  ReadLimits limits;
  limits.memory = 16 * MiB;
  SnapshotReader reader(limits);
  for (std::size_t at = 1; at < size; at += piece) {
    if (!reader.feed(data + at, std::min(piece, size - at))) break;
  }
  const auto snapshot = reader.finish();
  if (!snapshot) {
    if (!reader.error() || reader.error()->message.empty()) std::abort();
    return 0;
  }
  for (std::size_t device = 0; device < snapshot->traces.size(); ++device) {
    PoolHistory pools;
    const MeasuredRun run = follow(*snapshot, device, &pools);
    for (const std::size_t event : {run.points.size() / 2, run.points.size()}) (void)pools.at(snapshot->traces[device], event);
    for (const Failure& failure : run.failures) {
      if (explain(failure).empty()) std::abort();
    }
  }
  return 0;
}
