// What a run on a card asks of CUDA and cuBLAS: little enough to have a stand-in, against which tests run everything above it.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>

#include "measure/kernels.h"

namespace whatfits::native::cuda {

/// A call to CUDA or cuBLAS that failed; what() is one line for a person. Running out of memory is not among them.
struct CudaError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct Card {
  std::string name;
  std::string pci;  ///< where it is, for NVML
  int major = 0;    ///< compute capability
  int minor = 0;
  int multiprocessors = 0;
  int driver = 0;   ///< 13000 is 13.0: the CUDA that the driver speaks
  int runtime = 0;  ///< the CUDA that this program was built with
  std::string cublas;
};

struct DeviceMemory {
  Bytes free = 0;
  Bytes total = 0;
};

/// C = A B + beta C in row-major order: A is m x k, B k x n, C m x n; a transposed operand lies in memory the other way round. Leading
/// strides and strides from one matrix of a batch to the next in elements.
struct Gemm {
  DType dtype = DType::float32;  ///< of all three; sums are float32
  bool a_transposed = false;
  bool b_transposed = false;
  std::int64_t m = 0, n = 0, k = 0;
  const void* a = nullptr;
  const void* b = nullptr;
  void* c = nullptr;
  std::int64_t a_lead = 0, b_lead = 0, c_lead = 0;
  std::int64_t batch = 1;
  std::int64_t a_next = 0, b_next = 0, c_next = 0;
  float beta = 0;
  void* workspace = nullptr;  ///< cuBLAS's, out of our allocator; the stream's own if the program has none
  Bytes workspace_bytes = 0;
};

/// One device, one stream: work goes in the order of the calls. Everything may throw CudaError.
class CudaApi {
 public:
  virtual ~CudaApi() = default;
  virtual Card card() = 0;
  /// Creates the context, if there is none yet, as every call below does.
  virtual void start() = 0;
  /// Creates the cuBLAS handle, without a workspace of its own.
  virtual void start_cublas(bool tf32) = 0;
  /// cudaMalloc; null when the device has too little.
  virtual void* allocate(Bytes bytes) = 0;
  virtual void release(void* memory) = 0;
  virtual DeviceMemory memory() = 0;
  virtual void copy_in(void* device, const void* host, Bytes bytes) = 0;
  /// Waits for what was launched before.
  virtual void copy_out(void* host, const void* device, Bytes bytes) = 0;
  virtual void fill(void* device, int byte, Bytes bytes) = 0;
  /// Runs a kernel of ours; false if there is none for the operator. `scratch` is device memory of `scratch_bytes`.
  virtual bool launch(const OpCall& call, void* scratch, Bytes scratch_bytes) = 0;
  virtual void multiply(const Gemm& gemm) = 0;
  virtual void synchronize() = 0;
};

/// The first card. Throws CudaError when this build has no CUDA, or the machine no driver, no card or no cuBLAS.
std::unique_ptr<CudaApi> open_cuda();

}  // namespace whatfits::native::cuda
