// torch.nn.parallel.DistributedDataParallel with its defaults: buckets of 25 MiB beside the gradients, buffers broadcast in each forward.
//
// Sources: torch/nn/parallel/distributed.py, torch/distributed/optim/zero_redundancy_optimizer.py, torch/csrc/distributed/c10d/reducer.cpp
// and comm.cpp of PyTorch 2.6, and event traces of rank 0 over a fake process group (tests/oracle/parallel_truth.py).
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "torch/torch.h"
#include "torch/wrapper.h"

namespace whatfits::torch {

class DistributedDataParallel final : public Wrapper {
 public:
  /// `zero`: the optimizer is torch.distributed.optim.ZeroRedundancyOptimizer, which keeps the state of a part of the parameters.
  DistributedDataParallel(Torch& torch, std::int64_t gpus, bool zero) : torch_(torch), gpus_(gpus), zero_(zero) {}

  void wrap(const std::vector<Tensor>& trainable) override;
  const std::vector<Tensor>* partition() const override { return zero_ ? &partition_ : nullptr; }
  void pre_forward() override;
  void gradient_accumulated(const Tensor& parameter) override;

 private:
  /// A tensor as bucketing sees it.
  struct Item {
    Bytes bytes = 0;
    DType dtype = DType::float32;
  };
  struct Bucket {
    Bytes bytes = 0;
    DType dtype = DType::float32;
    std::size_t first = 0;  ///< item
    std::size_t items = 0;
  };
  static std::vector<Bucket> assign(const std::vector<Item>& items, Bytes first_limit, Bytes limit);
  Item item_of(StorageId storage) const;

  void make_partition(const std::vector<Tensor>& trainable);
  void verify_parameters(const std::vector<Tensor>& trainable) const;
  void broadcast(const std::vector<Item>& items) const;
  void make_buckets(const std::vector<Bucket>& buckets);
  void rebuild_buckets();

  Torch& torch_;
  std::int64_t gpus_;
  bool zero_;
  std::vector<Tensor> partition_;  ///< of the rank whose is the largest
  std::vector<Item> buffers_;
  std::vector<Tensor> buckets_;
  std::vector<Item> ready_;  ///< parameters in the order in which their gradients came, in the first backward
  bool rebuilt_ = false;
};

}  // namespace whatfits::torch
