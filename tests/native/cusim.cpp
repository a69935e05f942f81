#include "cusim.h"

#include <cstdlib>

#undef __global__
#undef __device__
#undef __host__
#undef __shared__

namespace cusim {

namespace {

constexpr std::size_t kStack = 64 * 1024;

extern "C" void cusim_switch(void** save, void* to);
// Saves the registers that a function must keep on the stack in use, and goes on on another.
#if defined(__x86_64__)
asm(R"(
.text
.globl cusim_switch
.type cusim_switch,@function
cusim_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size cusim_switch,.-cusim_switch
)");
#else
#error "cusim.cpp switches stacks on x86-64 only"
#endif

/// From a fiber back to the scheduler.
void yield() {
  State& s = state;
  Fiber* const fiber = s.current;
#if defined(WHATFITS_CUSIM_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(fiber->at == At::done ? nullptr : &fake, s.scheduler_stack, s.scheduler_size);
#endif
  cusim_switch(&fiber->stack_pointer, s.scheduler);
#if defined(WHATFITS_CUSIM_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

[[noreturn]] void entry() {
  State& s = state;
#if defined(WHATFITS_CUSIM_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &s.scheduler_stack, &s.scheduler_size);
#endif
  try {
    (*s.body)();
  } catch (...) {
    s.error = std::current_exception();
  }
  s.current->at = At::done;
  yield();
  std::abort();
}

void resume(Fiber& fiber, [[maybe_unused]] char* stack) {
  State& s = state;
  s.current = &fiber;
#if defined(WHATFITS_CUSIM_ASAN)
  void* fake = nullptr;
  __sanitizer_start_switch_fiber(&fake, stack, kStack);
#endif
  cusim_switch(&s.scheduler, fiber.stack_pointer);
#if defined(WHATFITS_CUSIM_ASAN)
  __sanitizer_finish_switch_fiber(fake, nullptr, nullptr);
#endif
}

void start_fibers(unsigned n) {
  State& s = state;
  s.fibers.assign(n, {});
  s.warps.assign((n + 31) / 32, {});
  if (s.stack_count < n) {
    s.stacks.reset(new char[n * kStack]);
    s.stack_count = n;
  }
#if defined(WHATFITS_CUSIM_ASAN)
  __asan_unpoison_memory_region(s.stacks.get(), s.stack_count * kStack);
#endif
  for (unsigned i = 0; i < n; ++i) {
    Fiber& fiber = s.fibers[i];
    fiber.number = i;
    fiber.thread = {i % s.block.x, i / s.block.x % s.block.y, i / (s.block.x * s.block.y)};
    // A stack as cusim_switch leaves one: six registers below the address to go on at, which must look like a call's.
    const auto top = reinterpret_cast<std::uintptr_t>(s.stacks.get() + (i + 1) * kStack) & ~std::uintptr_t{15};
    auto** at = reinterpret_cast<void**>(top);
    *--at = nullptr;
    *--at = reinterpret_cast<void*>(&entry);
    at -= 6;
    std::memset(at, 0, 6 * sizeof *at);
    fiber.stack_pointer = at;
  }
}

/// Opens every barrier that all who still run have reached. False if that moved nobody.
bool open_barriers(unsigned n) {
  State& s = state;
  bool any = false;
  unsigned done = 0;
  unsigned at_block = 0;
  for (unsigned first = 0; first < n; first += 32) {
    const unsigned last = std::min(n, first + 32);
    unsigned waiting = 0;
    unsigned alive = 0;
    for (unsigned i = first; i < last; ++i) {
      alive += s.fibers[i].at != At::done ? 1U : 0U;
      waiting += s.fibers[i].at == At::warp ? 1U : 0U;
    }
    if (waiting == 0 || waiting != alive) continue;
    for (unsigned i = first; i < last; ++i) {
      if (s.fibers[i].at == At::warp) s.fibers[i].at = At::run;
    }
    any = true;
  }
  for (const Fiber& fiber : s.fibers) {
    done += fiber.at == At::done ? 1U : 0U;
    at_block += fiber.at == At::block ? 1U : 0U;
  }
  if (at_block != 0 && done != 0) throw std::logic_error("__syncthreads after some threads of the block have returned");
  if (at_block == n) {
    for (Fiber& fiber : s.fibers) fiber.at = At::run;
    any = true;
  }
  return any;
}

void run_block() {
  State& s = state;
  const unsigned n = s.block.x * s.block.y * s.block.z;
  start_fibers(n);
  std::vector<unsigned> order(n);
  std::iota(order.begin(), order.end(), 0U);
  std::mt19937 random(s.order_seed + s.block_index.x * 7919U);
  for (;;) {
    if (s.order_seed != 0) std::shuffle(order.begin(), order.end(), random);
    for (const unsigned i : order) {
      if (s.fibers[i].at != At::run) continue;
      resume(s.fibers[i], s.stacks.get() + i * kStack);
      if (s.error) std::rethrow_exception(std::exchange(s.error, nullptr));
    }
    const bool all = std::all_of(s.fibers.begin(), s.fibers.end(), [](const Fiber& f) { return f.at == At::done; });
    if (all) return;
    const bool ready = std::any_of(s.fibers.begin(), s.fibers.end(), [](const Fiber& f) { return f.at == At::run; });
    if (!open_barriers(n) && !ready) throw std::logic_error("divergent barrier: some threads of the block or warp never reach it");
  }
}

}  // namespace

void wait(At at) {
  state.current->at = at;
  yield();
}

void run(dim3 grid, dim3 block, std::size_t shared, const std::function<void()>& body) {
  State& s = state;
  s.grid = grid;
  s.block = block;
  s.dynamic.assign((shared + 7) / 8, 0x7ff8dead7ff8deadULL);
  s.body = &body;
  for (unsigned z = 0; z < grid.z; ++z) {
    for (unsigned y = 0; y < grid.y; ++y) {
      for (unsigned x = 0; x < grid.x; ++x) {
        s.block_index = {x, y, z};
        run_block();
      }
    }
  }
}

}  // namespace cusim
