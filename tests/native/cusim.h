// Runs the kernels of native/src/cuda/kernels/ on the CPU: a fiber for each CUDA thread, blocks one after the other. For tests.
//
// A kernel's text is compiled as it is, with the host's compiler: launches come through LAUNCH, dynamic shared memory through
// DYN_SHARED. Threads of a block may run in shuffled order (order_seed) and dynamic shared memory starts as NaN, so a missing
// __syncthreads shows as a wrong result, a divergent one as an exception, and an access out of bounds under AddressSanitizer.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <numeric>
#include <random>
#include <stdexcept>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define WHATFITS_CUSIM_ASAN
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WHATFITS_CUSIM_ASAN
#endif
#endif
#if defined(WHATFITS_CUSIM_ASAN)
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x(a), y(b), z(c) {}
};
using cudaStream_t = void*;

namespace cusim {

enum class At : unsigned char { run, block, warp, done };

struct Fiber {
  void* stack_pointer = nullptr;
  uint3 thread{};
  unsigned number = 0;
  At at = At::run;
};
struct Warp {
  std::uint64_t slot[32];
};

struct State {
  dim3 grid, block;
  uint3 block_index{};
  Fiber* current = nullptr;
  std::vector<Fiber> fibers;
  std::vector<Warp> warps;
  std::unique_ptr<char[]> stacks;
  std::size_t stack_count = 0;
  std::vector<std::uint64_t> dynamic;
  void* scheduler = nullptr;
  const std::function<void()>* body = nullptr;
  std::exception_ptr error;
  const void* scheduler_stack = nullptr;
  std::size_t scheduler_size = 0;
  unsigned order_seed = 0;  ///< 0: threads in order
};
inline thread_local State state;

inline void set_order(unsigned seed) { state.order_seed = seed; }

/// Runs a kernel over the grid. Throws std::logic_error where some threads of a block never reach a barrier.
void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& body);
void wait(At at);

template <class Kernel, class... Arguments>
void launch(Kernel kernel, dim3 grid, dim3 block, std::size_t shared, cudaStream_t /*stream*/, Arguments... arguments) {
  run(grid, block, shared, [&] { kernel(arguments...); });
}

template <class T>
T shuffle(T value, unsigned lane) {
  static_assert(sizeof(T) <= 8);
  Warp& warp = state.warps[state.current->number / 32];
  std::memcpy(&warp.slot[state.current->number % 32], &value, sizeof(T));
  wait(At::warp);
  T result;
  std::memcpy(&result, &warp.slot[lane & 31], sizeof(T));
  wait(At::warp);
  return result;
}

}  // namespace cusim

#define __global__
#define __device__
#define __host__
#define __shared__ static thread_local
#define threadIdx (cusim::state.current->thread)
#define blockIdx (cusim::state.block_index)
#define blockDim (cusim::state.block)
#define gridDim (cusim::state.grid)
#define DYN_SHARED(T, name) T* name = reinterpret_cast<T*>(cusim::state.dynamic.data())
#define LAUNCH(kernel, grid, block, shared, stream, ...) cusim::launch(kernel, grid, block, shared, stream, __VA_ARGS__)

inline void __syncthreads() { cusim::wait(cusim::At::block); }
template <class T>
T __shfl_xor_sync(unsigned /*mask*/, T value, int lanes) {
  return cusim::shuffle(value, (cusim::state.current->number % 32) ^ static_cast<unsigned>(lanes));
}
