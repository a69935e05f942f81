#include "measure/measure.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ostream>

#include "cpu/cpu_kernels.h"
#include "measure/files.h"
#include "measure/run.h"
#include "measure/sweep.h"

namespace whatfits::native {

namespace {

std::string format(const char* pattern, auto... values) {
  char text[256];
  std::snprintf(text, sizeof text, pattern, values...);
  return text;
}

double in_mib(Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(MiB); }

void print_result(const RunResult& r, std::ostream& out) {
  const auto row = [&](const char* name, const Counters& measured, const Counters& predicted) {
    out << format("%-22s %12.1f %12.1f %12.1f %12.1f\n", name, in_mib(measured.allocated), in_mib(measured.reserved),
                  in_mib(predicted.allocated), in_mib(predicted.reserved));
  };
  out << format("%-22s %12s %12s %12s %12s\n", "MiB", "allocated", "reserved", "predicted", "predicted");
  if (r.measured.after_optimizer) row("model and optimizer", *r.measured.after_optimizer, *r.predicted.after_optimizer);
  row("peak", r.measured.peak, r.predicted.peak);
  out << (r.equal ? "every counter equals the prediction\n" : "COUNTERS DIFFER FROM THE PREDICTION\n");
  out << format("process: %.1f MiB at its peak = %.1f before + %.1f of segments %+.1f\n", in_mib(r.peak_rss), in_mib(r.baseline_rss),
                in_mib(r.measured.peak.reserved), in_mib(r.peak_rss) - in_mib(r.baseline_rss + r.measured.peak.reserved));
  if (!r.steps.empty()) {
    double best = r.steps[0].seconds;
    for (const StepResult& s : r.steps) best = s.seconds < best ? s.seconds : best;
    out << format("best step %.3f s; its products are %.3f TFLOP, the rest moves %.2f GB", best, r.flops * 1e-12, r.step_bytes * 1e-9);
    if (r.gemm_peak > 0) {
      out << format("; at this machine's sgemm (%.0f GFLOP/s) and copy (%.1f GB/s) these take %.3f s, %.0f %% of the step",
                    r.gemm_peak * 1e-9, r.copy_peak * 1e-9, r.flops / r.gemm_peak + r.step_bytes / r.copy_peak,
                    100 * (r.flops / r.gemm_peak + r.step_bytes / r.copy_peak) / best);
    }
    out << '\n';
  }
  out << "kernels: " << r.kernels << '\n';
  if (r.measured.oom) out << r.measured.oom->message << '\n';
}

int run_command(const Config& config, const MeasureOptions& options, std::ostream& out, std::ostream& err) {
  const bool terminal = isatty(STDERR_FILENO) != 0;
  const auto progress = [&](const StepResult& step) {
    err << (terminal ? "\r" : "")
        << format("step %lld  loss %.6f  %.1f tokens/s", static_cast<long long>(step.step), step.loss, step.tokens_per_second)
        << (terminal ? "   " : "\n") << std::flush;
  };
  RunResult result = run_on_cpu(config, options, progress);
  if (terminal && !result.steps.empty()) err << '\n';
  const Machinery machine = measure_machinery();
  result.gemm_peak = machine.gemm_flops;
  result.copy_peak = machine.bytes_per_second;
  const std::string fixture = fixture_json(result, options).dump(1) + "\n";
  if (options.fixture == "-") {
    out << fixture;
  } else {
    print_result(result, out);
    if (!options.fixture.empty()) write_whole("fixture", options.fixture, fixture);
  }
  return result.measured.oom ? 1 : 0;
}

}  // namespace

int measure_command(const Config& config, const MeasureOptions& options, std::ostream& out, std::ostream& err) {
  try {
    if (options.on != "cpu") throw Impossible("on: \"" + options.on + "\" cannot be measured by this build: it knows cpu");
    if (config.engine != Engine::torch) throw Impossible("engine: only torch can be measured");
    if (!options.batches.empty()) {
      if (options.out.empty()) throw Impossible("out: a sweep needs a folder for its rows");
      return sweep_command(config, options, out, err);
    }
    return run_command(config, options, out, err);
  } catch (const std::bad_alloc&) {
    err << "memory: the system has no more to give\n";
  } catch (const std::exception& e) {
    err << e.what() << '\n';
  }
  return 2;
}

std::optional<std::vector<std::int64_t>> parse_batches(const std::string& text) {
  std::vector<std::int64_t> batches;
  std::size_t at = 0;
  const auto number = [&]() -> std::optional<std::int64_t> {
    std::int64_t n = 0;
    const std::size_t begin = at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9' && n < (1 << 20)) n = 10 * n + (text[at++] - '0');
    return at > begin && n >= 1 && n <= (1 << 20) ? std::optional(n) : std::nullopt;
  };
  for (;;) {
    const auto first = number();
    if (!first) return std::nullopt;
    auto last = first;
    if (text.compare(at, 2, "..") == 0) {
      at += 2;
      last = number();
      if (!last || *last < *first || *last - *first > 4096) return std::nullopt;
    }
    for (std::int64_t b = *first; b <= *last; ++b) batches.push_back(b);
    if (at == text.size()) return batches;
    if (text[at++] != ',') return std::nullopt;
  }
}

void prefer_passive_waiting(char** argv) {
  if (std::getenv("OMP_WAIT_POLICY") != nullptr) return;
  setenv("OMP_WAIT_POLICY", "passive", 1);
  execv("/proc/self/exe", argv);
}

}  // namespace whatfits::native
