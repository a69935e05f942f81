// A card's memory for the allocator, and its arithmetic for the executor.
#pragma once

#include <map>

#include "cuda/cuda_api.h"
#include "measure/native_source.h"

namespace whatfits::native::cuda {

/// Segments by cudaMalloc. Whatever is left is given back in the end.
class CudaSource final : public NativeSource {
 public:
  explicit CudaSource(CudaApi& api) : api_(api) {}
  ~CudaSource() override;
  CudaSource(const CudaSource&) = delete;
  CudaSource& operator=(const CudaSource&) = delete;

  std::optional<Address> reserve(Bytes bytes) override;
  void release(Address address, Bytes bytes) override;
  Bytes available() const override { return api_.memory().free; }
  void append_state(std::vector<std::uint64_t>& state) const override;
  void* pointer(Address address) const override { return reinterpret_cast<void*>(address); }
  /// What the segments take of the card, each in whole granules.
  Bytes taken(Bytes granule) const;

 private:
  CudaApi& api_;
  std::map<Address, Bytes> segments_;
};

/// Device memory of our own kernels for partial results, beside the allocator's.
inline constexpr Bytes kScratch = 8 * MiB;

class CudaKernels final : public KernelSet {
 public:
  /// Takes kScratch of the card. Throws CudaError.
  explicit CudaKernels(CudaApi& api);
  ~CudaKernels() override;
  CudaKernels(const CudaKernels&) = delete;
  CudaKernels& operator=(const CudaKernels&) = delete;

  void run(const OpCall& call) override;
  void read(void* host, const void* device, Bytes bytes) override { api_.copy_out(host, device, bytes); }
  void write(void* device, const void* host, Bytes bytes) override { api_.copy_in(device, host, bytes); }
  void poison(void* device, Bytes bytes) override { api_.fill(device, 0xFF, bytes); }
  void synchronize() override { api_.synchronize(); }
  std::string describe() const override { return api_.card().cublas; }

 private:
  CudaApi& api_;
  void* scratch_ = nullptr;
};

}  // namespace whatfits::native::cuda
