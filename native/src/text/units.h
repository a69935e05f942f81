// Numbers as a person reads them. Integer arithmetic throughout: the same digits on every machine.
#pragma once

#include <cstdint>
#include <string>

#include "whatfits/bytes.h"

namespace whatfits::cli {

/// 1234567 -> "1,234,567".
std::string with_commas(std::uint64_t number);
std::string with_commas(std::int64_t number);

/// "40,375.4": MiB to one decimal, half up, without the unit (it stands in the table's head).
std::string mib(Bytes bytes);

/// "-1,570.5" or "1,570.5": the same for a difference.
std::string signed_mib(std::int64_t bytes);

/// "43.89": GiB to two decimals, without the unit.
std::string gib(Bytes bytes);

/// "112.00": decimal gigabytes (10^9) to two decimals, without the unit.
std::string decimal_gb(Bytes bytes);

/// One size in running text, with its unit: "512 bytes", "2.0 KiB", "492.0 MiB", "3.83 GiB".
std::string size_text(Bytes bytes);

/// "54.3 %" of `whole`; "0.0 %" of nothing.
std::string percent(Bytes part, Bytes whole);

}  // namespace whatfits::cli
