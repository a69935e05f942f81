// From an operator to its kernel.
#include "cpu/kernels/isa.h"

namespace whatfits::native::WHATFITS_ISA {

namespace {
template <class A>
bool run_in(const OpCall& call) {
  return run_elementwise<A>(call) || run_rows<A>(call) || run_matmul<A>(call) || run_indexed<A>(call) || run_reductions<A>(call) ||
         run_optimizer<A>(call) || run_attention<A>(call);
}
}  // namespace

bool run(const OpCall& call) {
  for (const auto& views : {call.inputs, call.outputs}) {
    for (const View& v : views) {
      if (v.dtype == DType::float64) return run_in<double>(call);
    }
  }
  return run_in<float>(call);
}

}  // namespace whatfits::native::WHATFITS_ISA
