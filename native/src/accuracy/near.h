// The core's tables of recorded runs and of runs on real cards, made from the fixtures.
#pragma once

#include <string>

namespace whatfits::accuracy {

/// estimator/src/analysis/near_table.inc as the fixtures of `folder` say it: a row for each kind of recorded run that fits, how
/// many there are, and how far the worst prediction of a peak is off.
std::string near_table(const std::string& folder);

/// estimator/src/analysis/card_runs_table.inc as the fixtures of `folder` say it: a row for each kind of run on a real card whose peak
/// PyTorch itself counted, how many there are, and how far below and above the predictions of their peaks are. These runs are, whatever
/// their errors: those of the published sweep that ended, and those of others.json that are of grade A, have a request of one card, and
/// a highest allocated or reserved level of the whole run. What nvidia-smi showed, the levels after a model was made, and runs that ran
/// out of memory are no peaks that PyTorch counted.
std::string card_runs_table(const std::string& folder);

}  // namespace whatfits::accuracy
