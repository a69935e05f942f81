// What this process takes of the machine, and what the machine has.
#pragma once

#include <optional>
#include <string>

#include "whatfits/bytes.h"

namespace whatfits::native {

/// Highest resident size of this process so far.
Bytes peak_resident();
/// Resident size now.
Bytes resident();
/// MemAvailable: what can be had without swapping. Nothing where it cannot be read.
std::optional<Bytes> memory_available();
/// "AMD EPYC": the processor, without its machine.
std::string processor_name();
int processors();
/// Of the last minute, whoever caused it; 0 where it cannot be read.
double load_average();
/// "Linux 6.1": the system, without its machine.
std::string system_name();
/// "2026-11-30T10:00:00Z"
std::string utc_now();

}  // namespace whatfits::native
