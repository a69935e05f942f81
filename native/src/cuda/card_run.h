// A run on a card, and what the card says of it that the allocator cannot know.
#pragma once

#include "cuda/cuda_api.h"
#include "cuda/nvml.h"
#include "measure/run.h"

namespace whatfits::native::cuda {

/// The card that the counters of `config` are to be those of: its type and size, and what is free on it now.
Config on_card(const Config& config, const Card& card, const DeviceMemory& memory);

/// In stages, each of them read from the driver: before CUDA, with a context, with cuBLAS, with every kernel loaded (a tiny model is
/// trained for that), trained. Then the run itself, three times unless it reads or writes a checkpoint; counters of all must be equal.
/// The device of `config` is replaced by the card's. `nvml` may be null. Throws Impossible when others use the card and that was not
/// allowed, CudaError when CUDA fails.
RunResult run_on_card(const Config& config, const MeasureOptions& options, CudaApi& api, Nvml* nvml,
                      const std::function<void(const StepResult&)>& on_step);

}  // namespace whatfits::native::cuda
