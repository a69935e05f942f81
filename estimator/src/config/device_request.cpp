#include <nlohmann/json.hpp>

#include "config/preset_lookup.h"
#include "config/sections.h"
#include "config/text.h"

namespace whatfits::config {
namespace {

constexpr const char* kCapability = "must be a string such as \"8.6\", from \"5.0\" to \"12.9\"";
constexpr const char* kWhy = "PyTorch chooses its kernels by it";

// A key of the device object that is there and not null. Null stands for "not known".
bool given(Reader& device, std::string_view key) {
  const json* value = device.find(key);
  return value != nullptr && !value->is_null();
}

// "8.6" -> 86
bool parse_capability(std::string_view text, int& out) {
  const auto digit = [](char c) { return c >= '0' && c <= '9'; };
  if (text.size() < 3 || text.size() > 4 || text[text.size() - 2] != '.' || !digit(text.back())) return false;
  int major = 0;
  for (const char c : text.substr(0, text.size() - 2)) {
    if (!digit(c)) return false;
    major = major * 10 + (c - '0');
  }
  if (major < 5 || major > 12 || text.front() == '0') return false;
  out = major * 10 + (text.back() - '0');
  return true;
}

void read_memory(Reader& device, Device& out, std::vector<Problem>& problems) {
  const std::size_t before = problems.size();
  const bool has_total = given(device, "total_mib");
  const bool has_free = given(device, "free_mib");
  if (has_total) device.integer("total_mib", 1, limits::memory_mib, out.total_mib);
  if (has_free) device.integer("free_mib", 1, limits::memory_mib, out.free_mib);
  device.boolean("total_assumed", out.total_assumed);
  device.boolean("free_assumed", out.free_assumed);
  if (problems.size() != before) return;

  if (!has_total && !has_free) {
    device.statement("total_mib", "is missing; it must be a whole number from 1 to " + std::to_string(limits::memory_mib));
  } else if (!has_free) {
    out.free_mib = out.total_mib - kAssumedContextMib;
    out.free_assumed = true;
    if (out.free_mib < 1) {
      device.statement("free_mib",
                       "is missing, and total_mib less " + std::to_string(kAssumedContextMib) + " MiB for the CUDA context leaves nothing");
    }
  } else if (!has_total) {
    out.total_mib = out.free_mib + kAssumedContextMib;
    out.total_assumed = true;
  } else if (out.free_mib > out.total_mib) {
    device.not_allowed("free_mib", *device.find("free_mib"), "must be at most total_mib (" + std::to_string(out.total_mib) + ")");
  }
}

void read_object(const json& object, bool needs_cuda, Device& out, std::vector<Problem>& problems) {
  Reader device(object, "device.", problems);
  out = Device();
  out.name = "custom device";
  out.compute_capability = 0;
  out.sm_count = 0;
  out.rates = {};
  if (given(device, "name")) device.text("name", limits::name_bytes, out.name);
  read_memory(device, out, problems);

  if (given(device, "compute_capability")) {
    const json& value = *device.find("compute_capability");
    const auto* text = value.get_ptr<const std::string*>();
    if (text == nullptr || !parse_capability(*text, out.compute_capability)) device.not_allowed("compute_capability", value, kCapability);
  } else if (needs_cuda) {
    device.statement("compute_capability", std::string("is missing; it ") + kCapability + " (" + kWhy + ")");
  }
  if (given(device, "sm_count")) {
    std::int64_t count = 0;
    if (device.integer("sm_count", 1, limits::sm_count, count)) out.sm_count = static_cast<int>(count);
  } else if (needs_cuda) {
    device.statement("sm_count", "is missing; it must be the card's number of multiprocessors, from 1 to " +
                                     std::to_string(limits::sm_count) + " (" + kWhy + ")");
  }
  for_each_rate(out.rates, [&](const char* key, std::int64_t& rate) {
    if (!given(device, key)) return;
    const json& value = *device.find(key);
    if (value.is_number() && value.get<double>() > 0 && value.get<double>() <= 1e6) {
      rate = static_cast<std::int64_t>(value.get<double>() * 1000 + 0.5);
    } else {
      device.not_allowed(key, value, "must be a number above 0, at most 1000000");
    }
  });
  device.finish();
}

}  // namespace

void read_device(Reader& request, bool needs_cuda, Device& out, std::vector<Problem>& problems) {
  const json* value = request.find("device");
  if (value == nullptr) {
    if (const auto preset = find_device("a40")) out = preset->device;
    return;
  }
  if (value->is_object()) return read_object(*value, needs_cuda, out, problems);

  const auto* id = value->get_ptr<const std::string*>();
  const auto preset = id == nullptr ? std::nullopt : find_device(*id);
  if (!preset) {
    request.not_allowed("device", *value,
                        "must be a preset (a40, rtx-4090, a100-80gb, h100, ...) or an object with total_mib" +
                            (id == nullptr ? std::string() : did_you_mean(*id, device_ids())));
    return;
  }
  out = preset->device;
  if (needs_cuda && !preset->missing.empty()) {
    request.unsupported(
        "device", *value,
        "engine torch replays CUDA kernels, and " + out.name + " " + preset->missing + "; give the card as an object, or choose another");
  } else if (out.free_mib < 1) {
    request.unsupported("device", *value, "the catalogue has no memory figure of " + out.name + "; give it as an object");
  }
}

}  // namespace whatfits::config
