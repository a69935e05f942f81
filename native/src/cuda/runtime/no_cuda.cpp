// In place of open_cuda.cu where there was no CUDA toolkit to build with.
#include "cuda/cuda_api.h"

namespace whatfits::native::cuda {

std::unique_ptr<CudaApi> open_cuda() { throw CudaError("this build has no CUDA: install the CUDA toolkit and build again, or --on cpu"); }

}  // namespace whatfits::native::cuda
