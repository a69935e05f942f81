// Answers as JSON, in the words of the contract (README.md). Keys in a fixed order, numbers as integers of bytes.
#pragma once

#include <nlohmann/json.hpp>
#include <vector>

#include "whatfits/estimate.h"
#include "whatfits/picture.h"

namespace whatfits {

using Json = nlohmann::ordered_json;

Json to_json(const Report& report);
Json to_json(const Fit& fit);
Json to_json(const Ledger& ledger);
Json to_json(const std::vector<SweepCell>& cells);
Json to_json(const Advices& advices);
Json to_json(const Timeline& timeline);
Json to_json(const Explanation& explanation);
Json to_json(const OutOfMemory& oom);
Json to_json(const Pool& pool);

}  // namespace whatfits
