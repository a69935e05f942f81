// The parts of a request that are objects of their own.
#pragma once

#include "config/reader.h"
#include "whatfits/config.h"

namespace whatfits::config {

/// "model": a preset's id or an object. Required.
void read_model(Reader& request, ModelConfig& out, std::vector<Problem>& problems);

/// "device": a preset's id or an object. `needs_cuda`: the engine replays CUDA kernels, which depend on the compute capability
/// and the number of multiprocessors; without it only memory is needed.
void read_device(Reader& request, bool needs_cuda, Device& out, std::vector<Problem>& problems);

}  // namespace whatfits::config
