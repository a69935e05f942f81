#include "cuda/cuda_memory.h"

#include "whatfits/bytes.h"

namespace whatfits::native::cuda {

CudaSource::~CudaSource() {
  try {
    for (const auto& [address, bytes] : segments_) api_.release(pointer(address));
  } catch (const CudaError&) {
    // The context is gone, and its memory with it.
  }
}

std::optional<Address> CudaSource::reserve(Bytes bytes) {
  void* const memory = api_.allocate(bytes);
  if (!memory) return std::nullopt;
  const auto address = reinterpret_cast<Address>(memory);
  segments_.emplace(address, bytes);
  return address;
}

void CudaSource::release(Address address, Bytes /*bytes*/) {
  segments_.erase(address);
  api_.release(pointer(address));
}

void CudaSource::append_state(std::vector<std::uint64_t>& state) const {
  for (const auto& [address, bytes] : segments_) {
    state.push_back(address);
    state.push_back(bytes);
  }
}

Bytes CudaSource::taken(Bytes granule) const {
  Bytes sum = 0;
  for (const auto& [address, bytes] : segments_) sum += round_up(bytes, granule);
  return sum;
}

namespace {

/// Strides of a matrix's last two dimensions as cuBLAS wants them: one of them 1, the other at least a line long.
struct Lines {
  bool transposed;
  std::int64_t lead;
};
Lines lines_of(const View& v) {
  const std::int64_t rows = v.size(-2);
  const std::int64_t cols = v.size(-1);
  const std::int64_t row = v.stride(-2);
  const std::int64_t col = v.stride(-1);
  if (col == 1 || cols == 1) {
    if (row >= cols && (col == 1 || row == 1)) return {false, row};
    if (rows == 1) return {false, cols};
    if (col == 1) throw CudaError("a matrix product's operand has rows that overlap");
  }
  if (row == 1 || rows == 1) {
    if (col >= rows) return {true, col};
    if (cols == 1) return {true, rows};
  }
  throw CudaError("a matrix product's operand has neither rows nor columns in one piece");
}

void fill_gemm(Gemm& gemm, const View& a, const View& b, const View& c) {
  const Lines left = lines_of(a);
  const Lines right = lines_of(b);
  gemm.dtype = c.dtype;
  gemm.a_transposed = left.transposed;
  gemm.b_transposed = right.transposed;
  gemm.a_lead = left.lead;
  gemm.b_lead = right.lead;
  gemm.c_lead = c.size(-2) == 1 ? c.size(-1) : c.stride(-2);
  gemm.m = c.size(-2);
  gemm.n = c.size(-1);
  gemm.k = a.size(-1);
  gemm.a = a.data;
  gemm.b = b.data;
  gemm.c = c.data;
}

}  // namespace

CudaKernels::CudaKernels(CudaApi& api) : api_(api), scratch_(api.allocate(kScratch)) {
  if (!scratch_) throw CudaError("cudaMalloc: the card has not even " + std::to_string(kScratch / MiB) + " MiB free");
}

CudaKernels::~CudaKernels() {
  try {
    api_.release(scratch_);
  } catch (const CudaError&) {
    // As above.
  }
}

void CudaKernels::run(const OpCall& call) {
  Gemm gemm;
  gemm.workspace = call.workspace.data;
  gemm.workspace_bytes = call.workspace.bytes;
  switch (call.kind) {
    case OpKind::mm:
      fill_gemm(gemm, call.inputs[0], call.inputs[1], call.outputs[0]);
      return api_.multiply(gemm);
    case OpKind::addmm: {
      // The bias in every row first, then the product on top of it.
      const View bias[] = {call.inputs[0]};
      OpCall spread{.kind = OpKind::mul_scalar, .scalar = 1, .inputs = bias, .outputs = call.outputs};
      api_.launch(spread, scratch_, kScratch);
      fill_gemm(gemm, call.inputs[1], call.inputs[2], call.outputs[0]);
      gemm.beta = 1;
      return api_.multiply(gemm);
    }
    case OpKind::bmm:
      fill_gemm(gemm, call.inputs[0], call.inputs[1], call.outputs[0]);
      gemm.batch = call.outputs[0].size(0);
      gemm.a_next = call.inputs[0].stride(0);
      gemm.b_next = call.inputs[1].stride(0);
      gemm.c_next = call.outputs[0].stride(0);
      return api_.multiply(gemm);
    default:
      if (!api_.launch(call, scratch_, kScratch)) throw CudaError("no kernel for " + std::string(name_of(call.kind)));
  }
}

}  // namespace whatfits::native::cuda
