#include "models/wrap.h"

#include "torch/ddp.h"
#include "torch/fsdp.h"

namespace whatfits {

namespace {

bool fully_sharded(const Config& config) { return config.parallel && config.parallel->fully_sharded(); }

}  // namespace

bool uses_autocast(const Config& config) {
  return !fully_sharded(config) && (config.precision == Precision::amp_bf16 || config.precision == Precision::amp_fp16);
}

std::unique_ptr<torch::Wrapper> make_wrapper(torch::Torch& torch, const Config& config) {
  if (!config.parallel) return nullptr;
  const std::int64_t gpus = config.parallel->gpus;
  const Parallel::Strategy strategy = config.parallel->strategy;
  if (!fully_sharded(config)) {
    return std::make_unique<torch::DistributedDataParallel>(torch, gpus, strategy == Parallel::Strategy::zero1);
  }
  return std::make_unique<torch::FullyShard>(torch, gpus, config.model.n_layer, config.precision == Precision::amp_bf16,
                                             strategy != Parallel::Strategy::zero2);
}

}  // namespace whatfits
