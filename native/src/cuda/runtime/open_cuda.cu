// CUDA itself. cuBLAS is loaded when it is asked for: it is half a gigabyte, and the command line must start without it.
#include <cublas_v2.h>
#include <cuda_runtime.h>
#include <dlfcn.h>

#include "cuda/cuda_api.h"
#include "cuda/kernels/launch.h"

namespace whatfits::native::cuda {

namespace {

void check(cudaError_t status, const char* call) {
  if (status != cudaSuccess) throw CudaError(std::string(call) + ": " + cudaGetErrorString(status));
}

/// The functions that are used of it.
struct Cublas {
  decltype(&cublasCreate_v2) create;
  decltype(&cublasDestroy_v2) destroy;
  decltype(&cublasSetStream_v2) set_stream;
  decltype(&cublasSetWorkspace_v2) set_workspace;
  decltype(&cublasSetMathMode) set_math_mode;
  decltype(&cublasGetVersion_v2) get_version;
  cublasStatus_t (*gemm)(cublasHandle_t, cublasOperation_t, cublasOperation_t, int, int, int, const void*, const void*, cudaDataType, int,
                         long long, const void*, cudaDataType, int, long long, const void*, void*, cudaDataType, int, long long, int,
                         cublasComputeType_t, cublasGemmAlgo_t);
  decltype(&cublasGetStatusString) text;
};

template <class Function>
void find(void* library, const char* name, Function& function) {
  function = reinterpret_cast<Function>(dlsym(library, name));
  if (!function) throw CudaError(std::string("cuBLAS: has no ") + name);
}

Cublas load_cublas() {
  const std::string name = "libcublas.so." + std::to_string(CUBLAS_VER_MAJOR);
  void* library = nullptr;
  for (const std::string& path : {name, std::string("/usr/local/cuda/lib64/") + name}) {
    if (!library) library = dlopen(path.c_str(), RTLD_NOW);
  }
  if (!library) throw CudaError("cuBLAS: " + name + " is not installed, or not on LD_LIBRARY_PATH");
  Cublas blas{};
  find(library, "cublasCreate_v2", blas.create);
  find(library, "cublasDestroy_v2", blas.destroy);
  find(library, "cublasSetStream_v2", blas.set_stream);
  find(library, "cublasSetWorkspace_v2", blas.set_workspace);
  find(library, "cublasSetMathMode", blas.set_math_mode);
  find(library, "cublasGetVersion_v2", blas.get_version);
  find(library, "cublasGemmStridedBatchedEx", blas.gemm);
  find(library, "cublasGetStatusString", blas.text);
  return blas;
}

cudaDataType_t type_of(DType dtype) {
  switch (dtype) {
    case DType::float32:
      return CUDA_R_32F;
    case DType::bfloat16:
      return CUDA_R_16BF;
    case DType::float16:
      return CUDA_R_16F;
    default:
      throw CudaError("cuBLAS: cannot multiply " + std::string(name_of(dtype)));
  }
}

class RealCuda final : public CudaApi {
 public:
  RealCuda() {
    int count = 0;
    const cudaError_t status = cudaGetDeviceCount(&count);
    if (status == cudaErrorInsufficientDriver) {
      int driver = 0;
      cudaDriverGetVersion(&driver);
      throw CudaError(driver == 0 ? "no NVIDIA driver on this machine"
                                  : "the NVIDIA driver is too old for CUDA " + version(CUDART_VERSION));
    }
    if (status == cudaErrorNoDevice || count == 0) throw CudaError("no NVIDIA card on this machine");
    check(status, "cudaGetDeviceCount");
    cudaDeviceProp properties{};
    check(cudaGetDeviceProperties(&properties, 0), "cudaGetDeviceProperties");
    char pci[32] = {};
    check(cudaDeviceGetPCIBusId(pci, sizeof pci, 0), "cudaDeviceGetPCIBusId");
    card_ = {.name = properties.name,
             .pci = pci,
             .major = properties.major,
             .minor = properties.minor,
             .multiprocessors = properties.multiProcessorCount,
             .driver = 0,
             .runtime = CUDART_VERSION,
             .cublas = ""};
    check(cudaDriverGetVersion(&card_.driver), "cudaDriverGetVersion");
  }
  ~RealCuda() override {
    if (handle_) blas_.destroy(handle_);
    if (stream_) cudaStreamDestroy(stream_);
  }
  RealCuda(const RealCuda&) = delete;
  RealCuda& operator=(const RealCuda&) = delete;

  Card card() override { return card_; }

  void start() override {
    if (stream_) return;
    check(cudaSetDevice(0), "cudaSetDevice");
    check(cudaFree(nullptr), "cudaFree");
    check(cudaStreamCreate(&stream_), "cudaStreamCreate");
  }

  void start_cublas(bool tf32) override {
    blas_ = load_cublas();
    check(blas_.create(&handle_), "cublasCreate");
    check(blas_.set_stream(handle_, stream_), "cublasSetStream");
    check(blas_.set_math_mode(handle_, tf32 ? CUBLAS_TF32_TENSOR_OP_MATH : CUBLAS_DEFAULT_MATH), "cublasSetMathMode");
    int number = 0;
    check(blas_.get_version(handle_, &number), "cublasGetVersion");
    card_.cublas = "cuBLAS " + std::to_string(number) + (tf32 ? ", TF32" : "");
  }

  void* allocate(Bytes bytes) override {
    void* memory = nullptr;
    const cudaError_t status = cudaMalloc(&memory, bytes);
    if (status == cudaErrorMemoryAllocation) {
      cudaGetLastError();  // it is no error to us, and would come up again at the next call
      return nullptr;
    }
    check(status, "cudaMalloc");
    return memory;
  }
  void release(void* memory) override { check(cudaFree(memory), "cudaFree"); }
  DeviceMemory memory() override {
    std::size_t free = 0;
    std::size_t total = 0;
    check(cudaMemGetInfo(&free, &total), "cudaMemGetInfo");
    return {free, total};
  }
  void copy_in(void* device, const void* host, Bytes bytes) override {
    check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream_), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");  // the host's memory may go after this
  }
  void copy_out(void* host, const void* device, Bytes bytes) override {
    check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream_), "cudaMemcpyAsync");
    check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize");
  }
  void fill(void* device, int byte, Bytes bytes) override { check(cudaMemsetAsync(device, byte, bytes, stream_), "cudaMemsetAsync"); }
  bool launch(const OpCall& call, void* scratch, Bytes scratch_bytes) override {
    const bool known = device::run(call, stream_, scratch, scratch_bytes);
    check(cudaGetLastError(), std::string(name_of(call.kind)).c_str());
    return known;
  }

  /// cuBLAS thinks in columns: the transpose of a row-major C is B^T A^T.
  void multiply(const Gemm& g) override {
    if (g.workspace != workspace_) {
      check(blas_.set_workspace(handle_, g.workspace, g.workspace_bytes), "cublasSetWorkspace");
      workspace_ = g.workspace;
    }
    const cudaDataType_t type = type_of(g.dtype);
    const float one = 1;
    check(blas_.gemm(handle_, g.b_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, g.a_transposed ? CUBLAS_OP_T : CUBLAS_OP_N, static_cast<int>(g.n),
                     static_cast<int>(g.m), static_cast<int>(g.k), &one, g.b, type, static_cast<int>(g.b_lead), g.b_next, g.a, type,
                     static_cast<int>(g.a_lead), g.a_next, &g.beta, g.c, type, static_cast<int>(g.c_lead), g.c_next,
                     static_cast<int>(g.batch), CUBLAS_COMPUTE_32F, CUBLAS_GEMM_DEFAULT),
          "cublasGemmStridedBatchedEx");
  }
  void synchronize() override { check(cudaStreamSynchronize(stream_), "cudaStreamSynchronize"); }

 private:
  static std::string version(int number) { return std::to_string(number / 1000) + "." + std::to_string(number % 1000 / 10); }
  static void check(cudaError_t status, const char* call) { cuda::check(status, call); }
  void check(cublasStatus_t status, const char* call) const {
    if (status != CUBLAS_STATUS_SUCCESS) throw CudaError(std::string(call) + ": " + blas_.text(status));
  }

  Card card_;
  cudaStream_t stream_ = nullptr;
  Cublas blas_{};
  cublasHandle_t handle_ = nullptr;
  void* workspace_ = nullptr;
};

}  // namespace

std::unique_ptr<CudaApi> open_cuda() { return std::make_unique<RealCuda>(); }

}  // namespace whatfits::native::cuda
