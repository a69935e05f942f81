#include "cuda/nvml.h"

#include <dlfcn.h>

namespace whatfits::native::cuda {

namespace {

// As in nvml.h, whose names are the comments.
using Handle = void*;  // nvmlDevice_t
struct Memory {        // nvmlMemory_t
  unsigned long long total, free, used;
};
struct Process {  // nvmlProcessInfo_t of nvmlDeviceGetComputeRunningProcesses_v3
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
};
constexpr int kSuccess = 0;           // NVML_SUCCESS
constexpr int kInsufficientSize = 7;  // NVML_ERROR_INSUFFICIENT_SIZE

class LoadedNvml final : public Nvml {
 public:
  LoadedNvml(void* library, const std::string& pci) : library_(library) {
    const auto init = find<int()>("nvmlInit_v2");
    const auto by_pci = find<int(const char*, Handle*)>("nvmlDeviceGetHandleByPciBusId_v2");
    started_ = init && init() == kSuccess;
    if (!started_ || !by_pci || by_pci(pci.c_str(), &device_) != kSuccess) device_ = nullptr;
  }
  ~LoadedNvml() override {
    const auto shutdown = find<int()>("nvmlShutdown");
    if (started_ && shutdown) shutdown();
    dlclose(library_);
  }
  LoadedNvml(const LoadedNvml&) = delete;
  LoadedNvml& operator=(const LoadedNvml&) = delete;

  bool works() const { return device_ != nullptr; }

  std::optional<Bytes> used() override {
    Memory memory{};
    const auto get = find<int(Handle, Memory*)>("nvmlDeviceGetMemoryInfo");
    if (!get || get(device_, &memory) != kSuccess) return std::nullopt;
    return memory.used;
  }
  std::optional<int> processes() override {
    Process list[64];
    unsigned count = 64;
    const auto get = find<int(Handle, unsigned*, Process*)>("nvmlDeviceGetComputeRunningProcesses_v3");
    if (!get) return std::nullopt;
    const int status = get(device_, &count, list);
    if (status != kSuccess && status != kInsufficientSize) return std::nullopt;
    return static_cast<int>(count);
  }
  std::optional<std::string> driver() override {
    char text[96] = {};
    const auto get = find<int(char*, unsigned)>("nvmlSystemGetDriverVersion");
    if (!get || get(text, sizeof text) != kSuccess) return std::nullopt;
    return text;
  }

 private:
  template <class Function>
  Function* find(const char* name) const {
    return reinterpret_cast<Function*>(dlsym(library_, name));
  }
  void* library_;
  Handle device_ = nullptr;
  bool started_ = false;
};

}  // namespace

std::unique_ptr<Nvml> open_nvml(const std::string& pci) {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW);
  if (!library) return nullptr;
  auto nvml = std::make_unique<LoadedNvml>(library, pci);
  if (!nvml->works()) return nullptr;
  return nvml;
}

}  // namespace whatfits::native::cuda
