#include "cuda/card_run.h"

#include <algorithm>

#include "cuda/cuda_memory.h"
#include "measure/host.h"

namespace whatfits::native::cuda {

namespace {

constexpr int kRuns = 3;

/// A model of the same kinds of operators, over in a moment: it loads every kernel that the run will launch.
Config warm_up(const Config& config) {
  Config tiny = config;
  tiny.model.n_layer = 1;
  tiny.model.n_head = 2;
  tiny.model.n_embd = 128;
  tiny.model.vocab_size = 512;
  tiny.batch = 2;
  tiny.seq_len = std::min<std::int64_t>(config.seq_len, 64);
  tiny.steps = 2;
  return tiny;
}

class Ledger {
 public:
  Ledger(CudaApi& api, Nvml* nvml, CardResult& card) : api_(api), nvml_(nvml), card_(card) {}

  /// Reads everything there is to read. What cudaMemGetInfo says has no meaning before there is a context: it would make one.
  Bytes read(const std::string& name, bool has_context, Bytes reserved = 0) {
    Stage stage{.name = name, .runtime_used = std::nullopt, .nvml_used = nvml_ ? nvml_->used() : std::nullopt, .reserved = reserved};
    if (has_context) {
      api_.synchronize();
      const DeviceMemory memory = api_.memory();
      stage.runtime_used = memory.total - memory.free;
    }
    card_.stages.push_back(stage);
    return stage.runtime_used.value_or(0);
  }

  /// Whether the counters see us, and in what units.
  void calibrate() {
    for (const Bytes bytes : {Bytes{1}, MiB, 2 * MiB, 3 * MiB, 64 * MiB}) {
      const Bytes before = api_.memory().free;
      void* const memory = api_.allocate(bytes);
      if (!memory) break;
      const Bytes after = api_.memory().free;
      api_.release(memory);
      card_.calibration.push_back({bytes, before > after ? before - after : 0});
    }
    if (card_.calibration.empty() || card_.calibration.front().moved == 0)
      throw Impossible("cuda: cudaMemGetInfo does not move when memory is taken, so nothing can be measured with it");
    card_.granule = card_.calibration.front().moved;
  }

 private:
  CudaApi& api_;
  Nvml* nvml_;
  CardResult& card_;
};

std::int64_t difference(Bytes a, Bytes b) { return static_cast<std::int64_t>(a) - static_cast<std::int64_t>(b); }

bool same_figures(const RunResult& a, const RunResult& b) {
  const auto equal_steps = [](const StepCounters& x, const StepCounters& y) {
    return x.after_forward == y.after_forward && x.after_backward == y.after_backward && x.peak == y.peak;
  };
  return a.measured.peak == b.measured.peak && a.measured.retries == b.measured.retries &&
         std::equal(a.measured.steps.begin(), a.measured.steps.end(), b.measured.steps.begin(), b.measured.steps.end(), equal_steps) &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), b.steps.end(),
                    [](const StepResult& x, const StepResult& y) { return x.loss == y.loss; });
}

}  // namespace

Config on_card(const Config& config, const Card& card, const DeviceMemory& memory) {
  Config real = config;
  real.device.name = card.name;
  real.device.compute_capability = card.major * 10 + card.minor;
  real.device.sm_count = card.multiprocessors;
  real.device.total_mib = static_cast<std::int64_t>(memory.total / MiB);
  real.device.free_mib = static_cast<std::int64_t>(memory.free / MiB);
  real.device.total_assumed = real.device.free_assumed = false;
  return real;
}

RunResult run_on_card(const Config& config, const MeasureOptions& options, CudaApi& api, Nvml* nvml,
                      const std::function<void(const StepResult&)>& on_step) {
  const Card device = api.card();
  RunResult result;
  CardResult card;
  Ledger ledger(api, nvml, card);
  card.compute_capability = device.major * 10 + device.minor;
  card.multiprocessors = device.multiprocessors;
  card.driver_cuda = device.driver;
  card.runtime_cuda = device.runtime;
  card.driver = nvml ? nvml->driver() : std::nullopt;
  card.processes = nvml ? nvml->processes() : std::nullopt;
  if (card.processes.value_or(0) > 0) {
    if (!options.allow_shared)
      throw Impossible("cuda: " + std::to_string(*card.processes) + " other programs use the card: end them, or --allow-shared");
    result.suspect.emplace_back("other programs used the card");
  }
  if (!card.processes) result.suspect.emplace_back("whether other programs used the card is not known: no NVML");

  ledger.read("before", false);
  api.start();
  const Bytes context = ledger.read("context", true);
  api.start_cublas(options.tf32);
  const Bytes cublas = ledger.read("cublas", true);
  ledger.calibrate();
  CudaKernels kernels(api);
  const Bytes scratch = ledger.read("scratch", true);
  MeasureOptions plain;
  plain.on = options.on;
  {
    const Config tiny = warm_up(on_card(config, device, api.memory()));
    CudaSource source(api);
    RunResult unused;
    Training(tiny, plain).run(source, kernels, unused, nullptr);
  }
  const Bytes loaded = ledger.read("kernels", true);

  const DeviceMemory memory = api.memory();
  card.total = memory.total;
  const Config real = on_card(config, device, memory);
  const Training training(real, options);
  const bool once = !options.load.empty() || !options.save.empty() || !options.data.empty();
  for (card.runs = 0; card.runs < (once ? 1 : kRuns); ++card.runs) {
    RunResult run;
    CudaSource source(api);
    training.run(source, kernels, run, on_step);
    const Bytes segments = source.taken(card.granule);
    const Bytes used = ledger.read("trained", true, segments);
    if (card.runs > 0) {
      card.runs_identical = card.runs_identical && same_figures(run, result);
      continue;
    }
    // What was in use before us is not ours; without NVML it counts as the context's, and the fixture says so.
    card.context = difference(context, card.stages.front().nvml_used.value_or(0));
    card.cublas = difference(cublas, context);
    card.scratch = difference(scratch, cublas);
    card.kernels = difference(loaded, scratch);
    card.segments = difference(segments, 0);
    card.residual = difference(used, card.stages.front().nvml_used.value_or(0)) -
                    (card.context + card.cublas + card.scratch + card.kernels + card.segments);
    run.suspect = result.suspect;
    result = std::move(run);
  }
  result.device = device.name;
  result.peak_rss = peak_resident();
  result.card = std::move(card);
  return result;
}

}  // namespace whatfits::native::cuda
