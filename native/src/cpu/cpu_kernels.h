// The CPU's kernels, at the best level of the instruction set that this processor has.
#pragma once

#include "measure/kernels.h"

namespace whatfits::native {

class CpuKernels final : public KernelSet {
 public:
  CpuKernels();
  /// Throws std::runtime_error if there is no kernel for the operator.
  void run(const OpCall& call) override;
  void read(void* host, const void* device, Bytes bytes) override;
  void write(void* device, const void* host, Bytes bytes) override;
  void poison(void* device, Bytes bytes) override;
  void synchronize() override {}
  std::string describe() const override;

 private:
  bool (*run_)(const OpCall&);
  const char* level_;
};

/// How fast this machine is, for the share of it that a run achieves.
struct Machinery {
  double gemm_flops = 0;        ///< multiplications and additions a second of a large float32 product
  double bytes_per_second = 0;  ///< read and written by a copy much larger than the caches
};
Machinery measure_machinery();

}  // namespace whatfits::native
