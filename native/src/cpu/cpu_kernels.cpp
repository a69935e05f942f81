#include "cpu/cpu_kernels.h"

#include <chrono>
#include <cstring>
#include <stdexcept>
#include <vector>

#if defined(WHATFITS_ONEDNN)
#include <dnnl.h>
#endif

namespace whatfits::native {

namespace baseline {
bool run(const OpCall& call);
}
#if defined(WHATFITS_ISA_LEVELS)
namespace v3 {
bool run(const OpCall& call);
}
namespace v4 {
bool run(const OpCall& call);
}
#endif

CpuKernels::CpuKernels() : run_(baseline::run), level_("baseline") {
#if defined(WHATFITS_ISA_LEVELS)
  __builtin_cpu_init();
  const bool three = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("bmi2");
  const bool four = three && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                    __builtin_cpu_supports("avx512cd") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  if (three) {
    run_ = v3::run;
    level_ = "x86-64-v3";
  }
  if (four) {
    run_ = v4::run;
    level_ = "x86-64-v4";
  }
#endif
}

void CpuKernels::run(const OpCall& call) {
  if (!run_(call)) throw std::runtime_error("measure: there is no kernel for " + std::string(name_of(call.kind)) + " yet");
}

void CpuKernels::read(void* host, const void* device, Bytes bytes) { std::memcpy(host, device, bytes); }
void CpuKernels::write(void* device, const void* host, Bytes bytes) { std::memcpy(device, host, bytes); }
void CpuKernels::poison(void* device, Bytes bytes) { std::memset(device, 0xFF, bytes); }

std::string CpuKernels::describe() const {
#if defined(WHATFITS_ONEDNN)
  const dnnl_version_t* const v = dnnl_version();
  const std::string gemm = "oneDNN " + std::to_string(v->major) + "." + std::to_string(v->minor) + "." + std::to_string(v->patch);
#elif defined(WHATFITS_EIGEN)
  const std::string gemm = "Eigen";
#else
  const std::string gemm = "loops";
#endif
  return gemm + ", " + level_;
}

namespace {
double seconds_of(const auto& work) {
  using clock = std::chrono::steady_clock;
  double best = 1e30;
  for (int i = 0; i < 5; ++i) {
    const auto begin = clock::now();
    work();
    const double s = std::chrono::duration<double>(clock::now() - begin).count();
    if (s < best) best = s;
  }
  return best;
}

View matrix(std::vector<float>& data, std::int64_t rows, std::int64_t cols) {
  View v;
  v.data = data.data();
  v.rank = 2;
  v.sizes = {rows, cols};
  v.strides = {cols, 1};
  v.bytes = data.size() * sizeof(float);
  return v;
}
}  // namespace

Machinery measure_machinery() {
  CpuKernels kernels;
  Machinery m;
  {
    constexpr std::int64_t kSide = 1536;
    std::vector<float> a(kSide * kSide, 1.0F);
    std::vector<float> b(kSide * kSide, 0.5F);
    std::vector<float> c(kSide * kSide);
    const View in[] = {matrix(a, kSide, kSide), matrix(b, kSide, kSide)};
    const View out[] = {matrix(c, kSide, kSide)};
    const double s = seconds_of([&] { kernels.run({.kind = OpKind::mm, .inputs = in, .outputs = out}); });
    m.gemm_flops = 2.0 * kSide * kSide * kSide / s;
  }
  constexpr std::int64_t kRows = 16 << 10;
  std::vector<float> from(kRows * 1024, 1.0F);
  std::vector<float> to(kRows * 1024);
  const View in[] = {matrix(from, kRows, 1024)};
  const View out[] = {matrix(to, kRows, 1024)};
  const double s = seconds_of([&] { kernels.run({.kind = OpKind::copy, .inputs = in, .outputs = out}); });
  m.bytes_per_second = 2.0 * kRows * 1024 * sizeof(float) / s;
  return m;
}

}  // namespace whatfits::native
