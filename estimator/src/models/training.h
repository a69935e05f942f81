// The training script: warm-up, model, optimizer, and the steps that people write. See record() in whatfits/estimate.h.
#pragma once

#include "whatfits/config.h"
#include "whatfits/program.h"

namespace whatfits {

/// Runs the script of `config` (validated) for two steps over tensors without numbers and gives back what happened.
Program record(const Config& config);

}  // namespace whatfits
