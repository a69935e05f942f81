// torch.distributed.tensor.parallel.parallelize_module over all ranks: linear layers cut by their outputs or by their inputs, the
// embedding and the head by the vocabulary, and what DTensor sends between them.
//
// Sources: torch/distributed/tensor/parallel/style.py, tensor/_redistribute.py and tensor/_ops/_embedding_ops.py of PyTorch 2.6, and event
// traces of rank 0 over a fake process group (tests/oracle/parallel_truth.py).
#pragma once

#include <cstdint>
#include <vector>

#include "torch/torch.h"
#include "torch/wrapper.h"

namespace whatfits::torch {

/// Any rank: all are alike. Matrices are DTensors, this rank's piece of each; vectors (norms) are whole on every rank.
class TensorParallel final : public Wrapper {
 public:
  TensorParallel(Torch& torch, std::int64_t ways);

  void wrap(const std::vector<Tensor>& trainable) override;
  /// One group of the optimizer for DTensors, another for the rest: a foreach kernel takes no mixture.
  const std::vector<Tensor>* partition() const override { return &cut_; }
  const std::vector<Tensor>* second_group() const override { return &whole_; }

 private:
  Torch& torch_;
  std::int64_t ways_;
  std::vector<Tensor> cut_, whole_;
};

/// A DTensor's input, the same on all ranks: in backward each rank has a part of its gradient, and they are summed into a new tensor.
Tensor replicated(const Tensor& x);
/// Sums what each rank has a part of into a new tensor; `x` goes.
Tensor all_reduced(Tensor x);
/// Joins the ranks' pieces along the last dimension; `x` goes.
Tensor gathered(Tensor x, std::int64_t ways);
/// F.embedding with this rank's rows of the table. The gradient is of the whole table, as DTensor makes it.
Tensor vocabulary_embedding(const Tensor& rows, const Tensor& indices, std::int64_t ways);

}  // namespace whatfits::torch
