// The training script: warm-up, model, optimizer, and the steps that people write. See record() in whatfits/estimate.h.
#pragma once

#include "whatfits/config.h"
#include "whatfits/program.h"

namespace whatfits {

/// Runs the script of `config` (validated) for two steps over tensors without numbers and gives back what happened.
Program record(const Config& config);

/// Steps until the repeated one, with it: two, or three where step 2 is unlike the later ones.
int steps_recorded(const Config& config);

/// The same for any number of steps, each written down as it happens. Only of steps_recorded() is the last one fit to be repeated; more are
/// for checking that the repeated step is what really happens.
Program record_steps(const Config& config, int steps);

}  // namespace whatfits
