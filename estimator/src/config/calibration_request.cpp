#include <nlohmann/json.hpp>

#include "config/reader.h"
#include "config/sections.h"
#include "config/text.h"
#include "whatfits/request.h"

namespace whatfits::config {

void read_calibration(Reader& request, Config& out, std::vector<Problem>& problems) {
  const auto* const value = request.find("calibration");
  if (value == nullptr || value->is_null()) return;
  if (!value->is_object()) return request.not_allowed("calibration", *value, "must be null or what whatfits calibrate wrote");
  const std::size_t before = problems.size();
  Reader reader(*value, "calibration.", problems);
  const auto given = [&](const char* key) {
    const auto* const member = reader.find(key);
    return member != nullptr && !member->is_null();
  };
  std::int64_t schema = 1;
  reader.integer("schema_version", 1, 1, schema);
  Calibration calibration;
  reader.text("from", 300, calibration.from);
  reader.integer("extra_mib", 0, limits::memory_mib, calibration.extra_mib);
  if (given("reserved_per_mille")) reader.integer("reserved_per_mille", 1000, 10000, calibration.reserved_per_mille);
  std::int64_t free = out.device.free_mib;
  const bool has_free = given("free_mib") && reader.integer("free_mib", 1, limits::memory_mib, free);
  std::string device = out.device.name;
  if (given("device") && reader.text("device", limits::name_bytes, device) && device != out.device.name)
    reader.not_allowed("device", *reader.find("device"), "the request is of " + shown(std::string_view(out.device.name)));
  for (const char* key : {"measurements", "reserved_per_mille_spread"}) reader.find(key);  // for people
  reader.finish();
  if (problems.size() > before) return;
  if (free > out.device.total_mib) {
    reader.not_allowed("free_mib", *reader.find("free_mib"),
                       "must be at most the device's total_mib (" + std::to_string(out.device.total_mib) + ")");
  } else if (calibration.extra_mib >= free) {
    reader.not_allowed("extra_mib", *reader.find("extra_mib"), "must be below what is free (" + std::to_string(free) + ")");
  } else {
    if (has_free) out.device.free_assumed = false;
    if (free != out.device.free_mib) out.device.preset.clear();
    out.device.free_mib = free - calibration.extra_mib;
    out.calibration = std::move(calibration);
  }
}

}  // namespace whatfits::config
