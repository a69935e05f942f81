// The core's table of recorded runs, made from the fixtures.
#pragma once

#include <string>

namespace whatfits::accuracy {

/// estimator/src/analysis/near_table.inc as the fixtures of `folder` say it: a row for each kind of recorded run that fits, how
/// many there are, and how far the worst prediction of a peak is off.
std::string near_table(const std::string& folder);

}  // namespace whatfits::accuracy
