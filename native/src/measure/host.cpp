#include "measure/host.h"

#include <sys/resource.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <fstream>
#include <sstream>
#include <thread>

namespace whatfits::native {

namespace {

/// The value of a line "NAME:   12345 kB".
std::optional<Bytes> kilobytes(const char* file, const std::string& name) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.rfind(name + ":", 0) != 0) continue;
    std::istringstream rest(line.substr(name.size() + 1));
    Bytes value = 0;
    if (rest >> value) return value * KiB;
  }
  return std::nullopt;
}

}  // namespace

Bytes peak_resident() {
  if (const auto peak = kilobytes("/proc/self/status", "VmHWM")) return *peak;
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<Bytes>(usage.ru_maxrss) * KiB;
}

Bytes resident() { return kilobytes("/proc/self/status", "VmRSS").value_or(0); }

std::optional<Bytes> memory_available() { return kilobytes("/proc/meminfo", "MemAvailable"); }

std::string processor_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (line.rfind("model name", 0) != 0) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "unknown processor";
}

int processors() { return static_cast<int>(std::thread::hardware_concurrency()); }

double load_average() {
  double minute = 0;
  return getloadavg(&minute, 1) == 1 ? minute : 0;
}

std::string system_name() {
  utsname names{};
  if (uname(&names) != 0) return "unknown";
  const std::string release = names.release;
  const std::size_t minor = release.find('.');
  return std::string(names.sysname) + " " + release.substr(0, minor == std::string::npos ? minor : release.find_first_of(".-", minor + 1));
}

std::string utc_now() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  gmtime_r(&now, &parts);
  char text[32];
  std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &parts);
  return text;
}

}  // namespace whatfits::native
