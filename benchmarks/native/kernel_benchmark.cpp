// The CPU's kernels, each on the largest call that a training step of GPT-2 124M makes of it (one block, batch 1, 512 tokens; fp32,
// and AMP in bfloat16), beside what the machine can do: `of_copy` is the share of a large copy's bandwidth (above 1 in the
// caches), `of_gemm` the share of a large product's rate; the "/s" after them is the library's.
#include <benchmark/benchmark.h>

#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "cpu/cpu_kernels.h"
#include "measure/executor.h"
#include "measure/host_source.h"
#include "whatfits/estimate.h"
#include "whatfits/request.h"

namespace whatfits::native {
namespace {

double bytes_of(const View& view) { return static_cast<double>(view.elements()) * static_cast<double>(size_of(view.dtype)); }

double bytes_of(const OpCall& call) {
  // Of a table only the rows that are looked up.
  if (call.kind == OpKind::embedding) return 2 * bytes_of(call.outputs[0]);
  if (call.kind == OpKind::embedding_backward) return 2 * bytes_of(call.inputs[0]);
  double sum = 0;
  for (const auto& views : {call.inputs, call.outputs, call.scratch}) {
    for (const View& view : views) sum += bytes_of(view);
  }
  return sum;
}

/// Multiplications and additions of a product; 0 of any other operator.
double flops_of(const OpCall& call) {
  const bool product = call.kind == OpKind::mm || call.kind == OpKind::addmm || call.kind == OpKind::bmm;
  if (!product) return 0;
  const View& left = call.inputs[call.kind == OpKind::addmm ? 1 : 0];
  return 2.0 * static_cast<double>(call.outputs[0].elements()) * static_cast<double>(left.size(-1));
}

/// A call with its memory, kept for later.
class Kept {
 public:
  explicit Kept(const OpCall& call) : call_(call), hyper_(call.hyper ? *call.hyper : Hyperparameters{}) {
    for (const auto& views : {call.inputs, call.outputs, call.scratch}) {
      for (const View& view : views) views_.push_back(copy(view));
    }
    const std::span<const View> all(views_);
    call_.inputs = all.first(call.inputs.size());
    call_.outputs = all.subspan(call.inputs.size(), call.outputs.size());
    call_.scratch = all.subspan(call.inputs.size() + call.outputs.size());
    call_.hyper = &hyper_;
    call_.workspace = {};
  }
  const OpCall& call() const { return call_; }

 private:
  /// Operands that share memory share it here.
  View copy(View view) {
    std::unique_ptr<char[]>& to = memory_[view.data];
    if (!to) {
      to = std::make_unique<char[]>(view.bytes);
      std::memcpy(to.get(), view.data, view.bytes);
    }
    view.data = to.get();
    return view;
  }

  OpCall call_;
  Hyperparameters hyper_;
  std::vector<View> views_;
  std::map<void*, std::unique_ptr<char[]>> memory_;
};

/// Runs everything, and keeps the largest call of each operator.
class Keeper final : public KernelSet {
 public:
  void run(const OpCall& call) override {
    std::unique_ptr<Kept>& kept = calls[call.kind];
    if (!kept || bytes_of(call) > bytes_of(kept->call())) kept = std::make_unique<Kept>(call);
    kernels_.run(call);
  }
  void read(void* host, const void* device, Bytes bytes) override { kernels_.read(host, device, bytes); }
  void write(void* device, const void* host, Bytes bytes) override { kernels_.write(device, host, bytes); }
  void poison(void* device, Bytes bytes) override { kernels_.poison(device, bytes); }
  void synchronize() override {}
  std::string describe() const override { return kernels_.describe(); }

  std::map<OpKind, std::unique_ptr<Kept>> calls;

 private:
  CpuKernels kernels_;
};

void run_kernel(benchmark::State& state, const OpCall& call, const Machinery& machine) {
  CpuKernels kernels;
  for (auto _ : state) kernels.run(call);
  const auto per_iteration = benchmark::Counter::kIsIterationInvariantRate;
  state.SetBytesProcessed(static_cast<std::int64_t>(bytes_of(call)) * static_cast<std::int64_t>(state.iterations()));
  state.counters["of_copy"] = benchmark::Counter(bytes_of(call) / machine.bytes_per_second, per_iteration);
  if (flops_of(call) > 0) state.counters["of_gemm"] = benchmark::Counter(flops_of(call) / machine.gemm_flops, per_iteration);
}

/// Below this a call's own cost is what would be seen.
constexpr double kWorthwhile = 1 << 18;

void register_kernels(const Machinery& machine, Keeper& keeper, const std::string& precision, const std::string& attention) {
  const Config config =
      parse_request(R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 1}, "seq_len": 512, "clip_grad_norm": true,
    "precision": ")" +
                    precision + R"(", "attention": ")" + attention + "\"}")
          .config;
  const Program program = record(config);
  HostSource source(config.device, false);
  RandomBatches batches(config.model.vocab_size, 1);
  Executor executor(program, config, source, keeper, batches, {});
  if (!executor.setup() || !executor.step() || !executor.step()) throw std::runtime_error("the run to take kernels from did not fit");
  for (const auto& [kind, kept] : keeper.calls) {
    if (bytes_of(kept->call()) < kWorthwhile) continue;
    const std::string name = precision + "/" + std::string(name_of(kind));
    benchmark::RegisterBenchmark(name.c_str(),
                                 [&call = kept->call(), &machine](benchmark::State& state) { run_kernel(state, call, machine); })
        ->Unit(benchmark::kMicrosecond)
        ->UseRealTime();
  }
}

}  // namespace
}  // namespace whatfits::native

int main(int argc, char** argv) {
  using namespace whatfits::native;
  benchmark::Initialize(&argc, argv);
  const Machinery machine = measure_machinery();
  benchmark::AddCustomContext("kernels", CpuKernels().describe());
  benchmark::AddCustomContext("large product, GFLOP/s", std::to_string(machine.gemm_flops / 1e9));
  benchmark::AddCustomContext("large copy, GB/s", std::to_string(machine.bytes_per_second / 1e9));
  Keeper fp32;
  Keeper amp;
  register_kernels(machine, fp32, "fp32", "eager");
  register_kernels(machine, amp, "amp-bf16", "sdpa");
  benchmark::RunSpecifiedBenchmarks();
}
