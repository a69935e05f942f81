// The loop people write around a model of Transformers, at module level: names live until they are bound again.
#pragma once

#include "whatfits/config.h"
#include "whatfits/program.h"

namespace whatfits::hf {

/// record_steps() of models/training.h for a model type of Hugging Face.
Program record_steps(const Config& config, int steps);

}  // namespace whatfits::hf
