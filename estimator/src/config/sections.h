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

/// "calibration": null or what `whatfits calibrate` wrote. After the device, whose free memory it corrects.
void read_calibration(Reader& request, Config& out, std::vector<Problem>& problems);

/// A card's rates by their keys in the request, there in TFLOP/s and GB/s.
template <class Rates, class Visit>
void for_each_rate(Rates& rates, Visit visit) {
  visit("fp32_tflops", rates.fp32_gflops);
  visit("bf16_tflops", rates.bf16_gflops);
  visit("fp16_tflops", rates.fp16_gflops);
  visit("bandwidth_gbs", rates.bandwidth_mbs);
}

/// Families whose code has no attention but the one written out.
bool eager_only(const std::string& model_type);

/// What must hold between values that are right one by one; called only where they are.
void check_together(Reader& request, const Config& config);

}  // namespace whatfits::config
