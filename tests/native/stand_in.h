// A card that is not there: memory of the host behind addresses that follow the virtual card's rule, our kernels on fibers (cusim.h),
// products by the CPU's kernels. It counts what it is asked and can be made to fail.
#pragma once

#include <string>
#include <vector>

#include "cpu/cpu_kernels.h"
#include "cuda/cuda_api.h"
#include "measure/host_source.h"

namespace whatfits::native::test {

class StandInCuda final : public cuda::CudaApi {
 public:
  explicit StandInCuda(const Device& device) : device_(device), memory_(device, false) {}

  cuda::Card card() override;
  void start() override { log("start"); }
  void start_cublas(bool tf32) override { log(tf32 ? "cublas tf32" : "cublas"); }
  void* allocate(Bytes bytes) override;
  void release(void* memory) override;
  cuda::DeviceMemory memory() override;
  void copy_in(void* device, const void* host, Bytes bytes) override;
  void copy_out(void* host, const void* device, Bytes bytes) override;
  void fill(void* device, int byte, Bytes bytes) override;
  bool launch(const OpCall& call, void* scratch, Bytes scratch_bytes) override;
  void multiply(const cuda::Gemm& gemm) override;
  void synchronize() override { unfinished_ = false; }

  std::vector<std::string> calls;       ///< what was called, allocations with their sizes
  std::vector<Bytes> allocations;       ///< in order
  std::vector<const void*> workspaces;  ///< of each product, in order
  Bytes held = 0;                       ///< not yet given back
  int fail_after = -1;                  ///< so many kernels from now one fails; -1: none
  bool read_too_early = false;          ///< somebody read memory without waiting for what was launched

 private:
  void log(std::string call) { calls.push_back(std::move(call)); }
  Device device_;
  HostSource memory_;
  CpuKernels products_;
  std::vector<std::pair<Address, Bytes>> segments_;
  bool unfinished_ = false;
};

}  // namespace whatfits::native::test
