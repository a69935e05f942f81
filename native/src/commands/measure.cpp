// A training run for real, beside what was predicted of it.
#include "measure/measure.h"

#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>

#include "cli/failure.h"
#include "cli/ranges.h"
#include "commands/commands.h"
#include "commands/views.h"
#include "cpu/cpu_kernels.h"
#include "measure/files.h"
#include "measure/run.h"
#include "measure/sweep.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

using native::MeasureOptions;
using native::RunResult;
using native::StepResult;

std::string fixed(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", digits, value);
  return text;
}

double learning_rate(const std::string& text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !(value > 0) || value > 1)
    throw Failure("--lr: \"" + printable(text) + "\" is not allowed: must be a number above 0, at most 1");
  return value;
}

MeasureOptions options_of(const Arguments& arguments) {
  const MeasureFlags& flags = arguments.measure;
  MeasureOptions options;
  options.on = flags.on.value_or("cpu");
  if (options.on != "cpu" && options.on != "cuda")
    throw Failure("--on: \"" + printable(options.on) + "\" is not allowed: must be cpu or cuda");
  if (flags.seed) options.seed = whole_number("--seed", *flags.seed, std::numeric_limits<std::int64_t>::max());
  if (flags.lr) options.hyper.lr = learning_rate(*flags.lr);
  options.data = flags.data.value_or("");
  options.save = flags.save.value_or("");
  options.load = flags.load.value_or("");
  options.fixture = flags.fixture.value_or("");
  options.out = flags.out.value_or("");
  options.resume = flags.resume;
  options.poison = flags.poison;
  options.allow_shared = flags.allow_shared;
  options.tf32 = flags.tf32;
  if (arguments.batches) {
    options.batches = parse_ranges("--batches", *arguments.batches, whatfits::limits::batch);
    if (options.out.empty()) throw Failure("--batches: a sweep needs a folder for its rows: --out FOLDER");
    for (const auto& [flag, value] : {std::pair{"--save", &flags.save}, {"--load", &flags.load}, {"--fixture", &flags.fixture}}) {
      if (*value) throw Failure(std::string(flag) + ": belongs to a single run, not to a sweep");
    }
  } else if (!options.out.empty() || options.resume) {
    throw Failure(std::string(options.resume ? "--resume" : "--out") + ": belongs to a sweep: --batches LIST");
  }
  // How to ask for this again, with no path of this machine in it.
  options.argv = {"whatfits", "measure"};
  options.argv.emplace_back("--on");
  options.argv.push_back(options.on);
  for (const auto& [name, value] : arguments.request.flags) {
    options.argv.push_back(name);
    options.argv.push_back(value);
  }
  if (arguments.request.file) options.argv.emplace_back("-");
  if (flags.seed) options.argv.insert(options.argv.end(), {"--seed", *flags.seed});
  if (flags.lr) options.argv.insert(options.argv.end(), {"--lr", *flags.lr});
  return options;
}

/// "step 3  loss 10.8234  812 tokens/s" on standard error; on a terminal each over the one before.
class StepLine {
 public:
  explicit StepLine(bool terminal) : terminal_(terminal) {}
  StepLine(const StepLine&) = delete;
  StepLine& operator=(const StepLine&) = delete;
  ~StepLine() {
    if (shown_ && terminal_) std::fputc('\n', stderr);
  }
  void show(const StepResult& step) {
    std::fprintf(stderr, "%sstep %lld  loss %.6f  %.1f tokens/s%s", terminal_ ? "\r" : "", static_cast<long long>(step.step), step.loss,
                 step.tokens_per_second, terminal_ ? "\x1b[K" : "\n");
    std::fflush(stderr);
    shown_ = true;
  }

 private:
  bool terminal_;
  bool shown_ = false;
};

void print_counters(const RunResult& r, Session& session) {
  Table table({{""},
               {"allocated", Table::Align::right},
               {"reserved", Table::Align::right},
               {"predicted", Table::Align::right},
               {"predicted", Table::Align::right}});
  const auto row = [&](const char* name, const std::optional<Counters>& measured, const std::optional<Counters>& predicted) {
    if (measured && predicted)
      table.row({name, mib(measured->allocated), mib(measured->reserved), mib(predicted->allocated), mib(predicted->reserved)});
  };
  row("model", r.measured.after_model, r.predicted.after_model);
  if (!r.measured.steps.empty() && !r.predicted.steps.empty()) {
    const StepCounters& m = r.measured.steps.back();
    const StepCounters& p = r.predicted.steps[std::min(r.measured.steps.size(), r.predicted.steps.size()) - 1];
    row("last step: before", m.before, p.before);
    row("after forward", m.after_forward, p.after_forward);
    row("after backward", m.after_backward, p.after_backward);
    row("after optimizer step", m.after_optimizer_step, p.after_optimizer_step);
  }
  row("peak", r.measured.peak, r.predicted.peak);
  session.line("MiB measured and predicted");
  session.out += table.text(2);
  session.line(r.equal ? session.style.good("every counter equals the prediction to the byte")
                       : session.style.bad("COUNTERS DIFFER FROM THE PREDICTION"));
}

void print_speed(const RunResult& r, Session& session) {
  if (r.steps.empty()) return;
  double best = r.steps[0].seconds;
  for (const StepResult& s : r.steps) best = std::min(best, s.seconds);
  session.line("best step " + fixed(best, 3) + " s: " + fixed(r.flops * 1e-12, 3) + " TFLOP of products, " + fixed(r.step_bytes * 1e-9, 2) +
               " GB moved by the rest");
  if (r.gemm_peak <= 0) return;
  const double ideal = r.flops / r.gemm_peak + r.step_bytes / r.copy_peak;
  session.line("at this machine's sgemm (" + fixed(r.gemm_peak * 1e-9, 0) + " GFLOP/s) and copy (" + fixed(r.copy_peak * 1e-9, 1) +
               " GB/s) these take " + fixed(ideal, 3) + " s: " + fixed(100 * ideal / best, 0) + " % of the step");
}

int single(const Config& config, const MeasureOptions& options, bool json, Session& session) {
  RunResult result;
  {
    StepLine line(isatty(STDERR_FILENO) != 0);
    result = native::run_measured(config, options, [&](const StepResult& step) { line.show(step); });
  }
  if (options.on == "cpu") {
    const native::Machinery machine = native::measure_machinery();
    result.gemm_peak = machine.gemm_flops;
    result.copy_peak = machine.bytes_per_second;
  }
  const Json fixture = native::fixture_json(result, options);
  if (!options.fixture.empty()) native::write_whole("--fixture", options.fixture, fixture.dump(1) + "\n");
  if (json) {
    print_json(fixture, session);
    return result.measured.oom ? exit_status::does_not_fit : exit_status::ok;
  }
  session.line(session.style.bold(run_words(config)) + session.style.dim(" on " + result.device));
  session.line();
  print_counters(result, session);
  const std::int64_t rest = native::unexplained(result);
  session.line("process: " + mib(result.peak_rss) + " MiB at its peak = " + mib(result.baseline_rss) + " before + " +
               mib(result.measured.peak.reserved) + " of segments + " + signed_mib(rest) + " unexplained");
  print_speed(result, session);
  session.line("kernels: " + result.kernels);
  if (!result.measured.oom) return exit_status::ok;
  session.line();
  session.line(oom_sentence(*result.measured.oom));
  return exit_status::does_not_fit;
}

int sweep(const Config& config, const MeasureOptions& options, bool json, Session& session) {
  const std::vector<Json> rows = native::run_sweep(config, options);
  if (json) {
    print_json(native::sweep_json(rows), session);
  } else {
    session.out += native::sweep_csv(rows);
  }
  return exit_status::ok;
}

}  // namespace

int run_measure(const Arguments& arguments, Session& session) {
  const MeasureOptions options = options_of(arguments);
  nlohmann::json request = read_request(arguments.request);
  if (!options.batches.empty()) request["batch"] = *std::max_element(options.batches.begin(), options.batches.end());
  const Config config = checked(request);
  needs_replay(config, "measure");
  try {
    return options.batches.empty() ? single(config, options, arguments.json, session) : sweep(config, options, arguments.json, session);
  } catch (const Failure&) {
    throw;
  } catch (const std::bad_alloc&) {
    throw Failure("memory: the system has no more to give");
  } catch (const std::runtime_error& error) {  // of files and devices; what() is one line for a person
    throw Failure(error.what());
  }
}

}  // namespace whatfits::cli
