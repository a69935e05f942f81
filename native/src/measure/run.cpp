#include "measure/run.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <new>

#include "analysis/replay.h"
#include "cpu/cpu_kernels.h"
#include "cuda/card_run.h"
#include "measure/checkpoint.h"
#include "measure/executor.h"
#include "measure/files.h"
#include "measure/host.h"
#include "measure/host_source.h"
#include "whatfits/pace.h"

namespace whatfits::native {

namespace {

/// What the repeated step has to compute and to move, from its operators' shapes.
void count_work(const Program& program, RunResult& result) {
  for (std::size_t i = program.first_end; i < program.events.size(); ++i) {
    if (program.events[i].kind != EventKind::op) continue;
    const OpInfo& op = program.ops[program.events[i].index];
    if (const double products = multiply_adds(program, op); products > 0) {
      result.flops += 2 * products;
      continue;
    }
    for (std::size_t k = 0; k < std::size_t{op.inputs} + op.outputs; ++k) {
      const Layout& layout = program.layout_of(program.operands[op.first + k]);
      result.step_bytes += static_cast<double>(layout.shape.elements()) * static_cast<double>(size_of(layout.dtype));
    }
  }
}

bool same(const StepCounters& a, const StepCounters& b) {
  return a.before == b.before && a.after_forward == b.after_forward && a.after_backward == b.after_backward &&
         a.after_optimizer_step == b.after_optimizer_step && a.after_zero_grad == b.after_zero_grad && a.peak == b.peak;
}

bool same(const Trace& a, const Trace& b) {
  return a.after_warmup == b.after_warmup && a.after_model == b.after_model && a.after_optimizer == b.after_optimizer && a.peak == b.peak &&
         a.retries == b.retries && a.oom.has_value() == b.oom.has_value() && a.steps.size() == b.steps.size() &&
         std::equal(a.steps.begin(), a.steps.end(), b.steps.begin(), [](const auto& x, const auto& y) { return same(x, y); });
}

std::string mib(Bytes bytes) { return std::to_string((bytes + MiB - 1) / MiB) + " MiB"; }

std::unique_ptr<Batches> make_batches(const Config& config, const MeasureOptions& options) {
  if (options.data.empty()) return std::make_unique<RandomBatches>(config.model.vocab_size, options.seed);
  return std::make_unique<FileBatches>(options.data, config.model.vocab_size, config.seq_len, options.seed);
}

double default_lr(Optimizer optimizer) { return optimizer == Optimizer::sgd || optimizer == Optimizer::sgd_momentum ? 1e-2 : 3e-4; }

}  // namespace

std::int64_t unexplained(const RunResult& result) {
  return static_cast<std::int64_t>(result.peak_rss) - static_cast<std::int64_t>(result.baseline_rss + result.measured.peak.reserved);
}

Training::Training(const Config& config, const MeasureOptions& options)
    : config_(config), options_(options), program_(record(config)), batches_(make_batches(config, options)) {
  predicted_ = replay(program_, config, {.steps = static_cast<int>(std::min<std::int64_t>(config.steps, kMaxSteps))});
  if (!options.load.empty()) checkpoint_ = std::make_unique<Checkpoint>(options.load);
  for (const auto& [what, path] : {std::pair{"--save", options.save}, std::pair{"--fixture", options.fixture}}) {
    if (!path.empty()) check_writable(what, path);
  }
}

void Training::run(NativeSource& source, KernelSet& kernels, RunResult& result,
                   const std::function<void(const StepResult&)>& on_step) const {
  result.config = config_;
  result.kernels = kernels.describe();
  result.program_hash = program_hash(program_);
  result.predicted = predicted_;
  result.trace_hash = trace_hash(program_, config_, static_cast<int>(std::min<std::int64_t>(config_.steps, kMaxSteps)));
  count_work(program_, result);
  ExecutorOptions executor_options{.hyper = options_.hyper, .seed = options_.seed, .poison = options_.poison};
  if (executor_options.hyper.lr == 0) executor_options.hyper.lr = default_lr(config_.optimizer);
  if (checkpoint_) {
    executor_options.steps_before = checkpoint_->optimizer_steps();
    executor_options.micro_batches_before = checkpoint_->micro_batches();
  }
  Executor executor(program_, config_, source, kernels, *batches_, executor_options);
  if (checkpoint_) {
    executor.restore = [&](const std::string& name, const View& view) { return checkpoint_->restore("optimizer." + name, view, kernels); };
  }
  executor.on_point = [&](const Point& point) {
    if (point.step <= 2) result.points.push_back(point);
  };
  bool going = executor.setup();
  if (going && checkpoint_) checkpoint_->restore_parameters(executor, kernels);
  const double tokens = static_cast<double>(config_.batch * config_.seq_len * config_.grad_accumulation);
  for (std::int64_t i = 0; going && i < config_.steps; ++i) {
    const auto begin = std::chrono::steady_clock::now();
    going = executor.step();
    if (!going) break;
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    result.steps.push_back({executor.optimizer_steps(), executor.loss(), seconds, tokens / seconds});
    if (on_step) on_step(result.steps.back());
  }
  result.measured = executor.trace();
  // A run of more steps than are replayed is compared as far as the replay goes.
  Trace compared = result.measured;
  if (compared.steps.size() > predicted_.steps.size()) compared.steps.resize(predicted_.steps.size());
  result.equal = same(compared, predicted_);
  if (!options_.save.empty() && going) write_checkpoint(options_.save, executor, kernels);
}

namespace {

RunResult run_on_cpu(const Config& config, const MeasureOptions& options, const std::function<void(const StepResult&)>& on_step) {
  const Training training(config, options);
  RunResult result;
  result.device = processor_name();
  const Bytes needed = training.predicted().peak.reserved + 2 * kProcess;
  const std::optional<Bytes> available = memory_available();
  if (available && needed > *available) {
    if (!options.allow_shared)
      throw Impossible("batch: " + std::to_string(config.batch) + " sequences of " + std::to_string(config.seq_len) + " tokens take " +
                       mib(needed) + " of memory and " + mib(*available) +
                       " are available: make the batch or the model smaller, or --allow-shared");
    result.suspect.emplace_back("more memory than was available");
  }
  if (const double load = load_average(); load > 0.5 * processors()) {
    char text[96];
    std::snprintf(text, sizeof text, "times: other work ran beside it (load average %.1f on %d processors)", load, processors());
    result.suspect.emplace_back(text);
  }
  CpuKernels kernels;
  result.baseline_rss = resident();
  HostSource source(config.device, true);
  training.run(source, kernels, result, on_step);
  result.peak_rss = peak_resident();
  return result;
}

}  // namespace

RunResult run_measured(const Config& config, const MeasureOptions& options, const std::function<void(const StepResult&)>& on_step) {
  if (config.model.model_type != "gpt2-from-scratch")
    throw Impossible("model: " + config.model.model_type + " cannot be measured yet: must be of type gpt2-from-scratch");
  if (config.parallel) throw Impossible("parallel: must be null: whatfits measures one card, and predicts several");
  if (options.on == "cpu") return run_on_cpu(config, options, on_step);
  const std::unique_ptr<cuda::CudaApi> api = cuda::open_cuda();
  const std::unique_ptr<cuda::Nvml> nvml = cuda::open_nvml(api->card().pci);
  return cuda::run_on_card(config, options, *api, nvml.get(), on_step);
}

}  // namespace whatfits::native
