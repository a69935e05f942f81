#include "stand_in.h"

#include <algorithm>
#include <cstring>

#include "cuda/kernels/launch.h"

namespace whatfits::native::test {

cuda::Card StandInCuda::card() {
  return {.name = "stand-in",
          .pci = "none",
          .major = device_.compute_capability / 10,
          .minor = device_.compute_capability % 10,
          .multiprocessors = static_cast<int>(device_.sm_count),
          .driver = 13000,
          .runtime = 13000,
          .cublas = "stand-in"};
}

void* StandInCuda::allocate(Bytes bytes) {
  const std::optional<Address> address = memory_.reserve(bytes);
  if (!address) return nullptr;
  allocations.push_back(bytes);
  segments_.emplace_back(*address, bytes);
  held += round_up(bytes, 2 * MiB);
  log("allocate " + std::to_string(bytes));
  return memory_.pointer(*address);
}

void StandInCuda::release(void* memory) {
  const auto found = std::find_if(segments_.begin(), segments_.end(), [&](const auto& s) { return memory_.pointer(s.first) == memory; });
  if (found == segments_.end()) throw cuda::CudaError("cudaFree: invalid argument");
  unfinished_ = false;  // cudaFree waits for the device
  memory_.release(found->first, found->second);
  held -= round_up(found->second, 2 * MiB);
  log("release " + std::to_string(found->second));
  segments_.erase(found);
}

cuda::DeviceMemory StandInCuda::memory() { return {memory_.available(), static_cast<Bytes>(device_.total_mib) * MiB}; }

void StandInCuda::copy_in(void* device, const void* host, Bytes bytes) { std::memcpy(device, host, bytes); }

void StandInCuda::copy_out(void* host, const void* device, Bytes bytes) {
  unfinished_ = false;
  std::memcpy(host, device, bytes);
}

void StandInCuda::fill(void* device, int byte, Bytes bytes) { std::memset(device, byte, bytes); }

bool StandInCuda::launch(const OpCall& call, void* scratch, Bytes scratch_bytes) {
  if (fail_after >= 0 && fail_after-- == 0)
    throw cuda::CudaError(std::string(name_of(call.kind)) + ": an illegal memory access was encountered");
  unfinished_ = true;
  return cuda::host_run::run(call, nullptr, scratch, scratch_bytes);
}

void StandInCuda::multiply(const cuda::Gemm& g) {
  unfinished_ = true;
  workspaces.push_back(g.workspace);
  const auto matrix = [&](const void* data, bool transposed, std::int64_t rows, std::int64_t cols, std::int64_t lead, std::int64_t next) {
    View v;
    v.data = const_cast<void*>(data);
    v.dtype = g.dtype;
    v.rank = 3;
    v.sizes = {g.batch, rows, cols};
    v.strides = transposed ? std::array<std::int64_t, kMaxRank>{next, 1, lead} : std::array<std::int64_t, kMaxRank>{next, lead, 1};
    return v;
  };
  const View in[] = {matrix(g.a, g.a_transposed, g.m, g.k, g.a_lead, g.a_next), matrix(g.b, g.b_transposed, g.k, g.n, g.b_lead, g.b_next)};
  const View out[] = {matrix(g.c, false, g.m, g.n, g.c_lead, g.c_next)};
  if (g.beta == 0) return products_.run({.kind = OpKind::bmm, .inputs = in, .outputs = out});
  // The product beside, then added: what beta = 1 means.
  std::vector<float> sum(static_cast<std::size_t>(g.batch * g.m * g.n));
  View beside = out[0];
  beside.data = sum.data();
  beside.dtype = DType::float32;
  beside.strides = {g.m * g.n, g.n, 1};
  const View to[] = {beside};
  products_.run({.kind = OpKind::bmm, .inputs = in, .outputs = to});
  const View both[] = {out[0], beside};
  products_.run({.kind = OpKind::add_, .inputs = both, .outputs = out});
}

}  // namespace whatfits::native::test
