#include "models/wrap.h"

#include "torch/ddp.h"
#include "torch/fsdp.h"
#include "torch/tensor_parallel.h"

namespace whatfits {

namespace {

bool fully_sharded(const Config& config) { return config.parallel && config.parallel->fully_sharded(); }

}  // namespace

bool uses_autocast(const Config& config) {
  return !fully_sharded(config) && (config.precision == Precision::amp_bf16 || config.precision == Precision::amp_fp16);
}

Config of_one_rank(const Config& config) {
  Config rank = config;
  if (!config.parallel) return rank;
  ModelConfig& m = rank.model;
  const std::int64_t ways = config.parallel->tensor;
  if (ways > 1 && m.head_dim == 0) m.head_dim = m.n_embd / m.n_head;
  m.n_head /= ways;
  m.n_kv_head /= ways;
  m.n_inner /= ways;
  return rank;
}

std::unique_ptr<torch::Wrapper> make_wrapper(torch::Torch& torch, const Config& config) {
  if (!config.parallel) return nullptr;
  const std::int64_t gpus = config.parallel->gpus;
  const Parallel::Strategy strategy = config.parallel->strategy;
  if (config.parallel->tensor > 1) return std::make_unique<torch::TensorParallel>(torch, config.parallel->tensor);
  if (!fully_sharded(config)) {
    return std::make_unique<torch::DistributedDataParallel>(torch, gpus, strategy == Parallel::Strategy::zero1);
  }
  return std::make_unique<torch::FullyShard>(torch, gpus, config.model.n_layer, config.precision == Precision::amp_bf16,
                                             strategy != Parallel::Strategy::zero2);
}

}  // namespace whatfits
