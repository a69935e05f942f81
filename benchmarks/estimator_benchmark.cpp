// How long the questions take. Targets (not asserted; a shared machine is noisy, so look at medians of repetitions):
//   record + replay of GPT-2 124M, three steps   2 ms
//   fit, candidates that settle within 8 steps   60 ms
//   sweep of 32 x 8 three-step replays           0.6 s
//   the same of Llama 2 7B; of 405B on 64 cards  8 ms; 40 ms
//   96 layers against 12                         at most 1.15 x 8 times the time
//   a 96-layer replay                            less than 64 MiB of memory
#include <benchmark/benchmark.h>
#include <malloc.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <new>
#include <string>
#include <vector>

#include "analysis/replay.h"
#include "whatfits/estimate.h"
#include "whatfits/request.h"

// Every heap allocation is counted while `counting` is set, by what malloc really gave. Timings are taken with it off.
namespace {
std::atomic<bool> counting{false};
std::atomic<std::size_t> heap_now{0};
std::atomic<std::size_t> heap_peak{0};

void* counted(std::size_t bytes) {
  void* const p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc();
  if (!counting.load(std::memory_order_relaxed)) return p;
  const std::size_t size = malloc_usable_size(p);
  const std::size_t now = heap_now.fetch_add(size, std::memory_order_relaxed) + size;
  std::size_t peak = heap_peak.load(std::memory_order_relaxed);
  while (now > peak && !heap_peak.compare_exchange_weak(peak, now, std::memory_order_relaxed)) {
  }
  return p;
}

void uncounted(void* p) {
  if (p != nullptr && counting.load(std::memory_order_relaxed)) heap_now.fetch_sub(malloc_usable_size(p), std::memory_order_relaxed);
  std::free(p);
}

/// The most that `run` holds at once, in bytes. It must free what it allocates.
template <class Run>
std::size_t peak_heap(Run run) {
  heap_now.store(0);
  heap_peak.store(0);
  counting.store(true);
  run();
  counting.store(false);
  return heap_peak.load();
}
}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* p) noexcept { uncounted(p); }
void operator delete[](void* p) noexcept { uncounted(p); }
void operator delete(void* p, std::size_t) noexcept { uncounted(p); }
void operator delete[](void* p, std::size_t) noexcept { uncounted(p); }

namespace whatfits {
namespace {

/// GPT-2 small from scratch on an A40: the defaults of Config.
Config gpt2(std::int64_t batch = 8) {
  Config config;
  config.batch = batch;
  return config;
}

void record_only(benchmark::State& state) {
  const Config config = gpt2();
  std::size_t events = 0;
  for (auto _ : state) {
    const Program program = record(config);
    events = program.events.size();
    benchmark::DoNotOptimize(events);
  }
  state.counters["events"] = static_cast<double>(events);
}
BENCHMARK(record_only)->Unit(benchmark::kMillisecond);

void replay_only(benchmark::State& state) {
  const Config config = gpt2();
  const Program program = record(config);
  for (auto _ : state) benchmark::DoNotOptimize(replay(program, config, {.steps = 3}).peak.reserved);
}
BENCHMARK(replay_only)->Unit(benchmark::kMillisecond);

/// Target: 2 ms.
void record_and_replay(benchmark::State& state) {
  const Config config = gpt2();
  for (auto _ : state) benchmark::DoNotOptimize(replay(record(config), config, {.steps = 3}).peak.reserved);
}
BENCHMARK(record_and_replay)->Unit(benchmark::kMillisecond);

/// Targets: 8 ms and 40 ms.
void record_and_replay_of(benchmark::State& state, const char* request) {
  const ParsedRequest parsed = parse_request(request);
  if (!parsed.problems.empty()) return state.SkipWithError(to_line(parsed.problems.front()).c_str());
  const Config& config = parsed.config;
  for (auto _ : state) benchmark::DoNotOptimize(replay(record(config), config, {.steps = 3}).peak.reserved);
}
BENCHMARK_CAPTURE(record_and_replay_of, llama_2_7b, R"({"model": "llama-2-7b", "device": "h100", "precision": "bf16"})")
    ->Unit(benchmark::kMillisecond);
BENCHMARK_CAPTURE(record_and_replay_of, llama_3_1_405b_on_64, R"({"model": {"model_type": "llama", "hidden_size": 16384,
    "num_hidden_layers": 126, "num_attention_heads": 128, "num_key_value_heads": 8, "intermediate_size": 53248, "vocab_size": 128256,
    "max_position_embeddings": 131072}, "seq_len": 4096, "device": "h100", "precision": "bf16", "checkpointing": "full",
    "parallel": {"strategy": "fsdp", "gpus": 64}})")
    ->Unit(benchmark::kMillisecond);

/// With the account at the peak and both hashes.
void whole_report(benchmark::State& state) {
  const Config config = gpt2();
  for (auto _ : state) benchmark::DoNotOptimize(estimate(config).trace.peak.reserved);
}
BENCHMARK(whole_report)->Unit(benchmark::kMillisecond);

/// Target: 60 ms.
void fit_batch(benchmark::State& state) {
  const Config config = gpt2(1);
  Fit answer;
  for (auto _ : state) answer = fit(config);
  state.counters["largest"] = static_cast<double>(answer.largest);
  state.counters["replays"] = answer.replays;
}
BENCHMARK(fit_batch)->Unit(benchmark::kMillisecond);

/// Target: 600 ms. Three steps each, as the target says; the sweep that users see replays until it settles.
void three_step_grid_32x8(benchmark::State& state) {
  for (auto _ : state) {
    Bytes sum = 0;
    for (std::int64_t batch = 1; batch <= 32; ++batch) {
      for (std::int64_t k = 1; k <= 8; ++k) {
        Config config = gpt2(batch);
        config.seq_len = 128 * k;
        sum += replay(record(config), config, {.steps = 3}).peak.reserved;
      }
    }
    benchmark::DoNotOptimize(sum);
  }
}
BENCHMARK(three_step_grid_32x8)->Unit(benchmark::kMillisecond);

void sweep_32x8(benchmark::State& state) {
  std::vector<std::int64_t> batches;
  std::vector<std::int64_t> lengths;
  for (std::int64_t batch = 1; batch <= 32; ++batch) batches.push_back(batch);
  for (std::int64_t k = 1; k <= 8; ++k) lengths.push_back(128 * k);
  const Config config = gpt2();
  for (auto _ : state) benchmark::DoNotOptimize(sweep(config, batches, lengths).size());
}
BENCHMARK(sweep_32x8)->Unit(benchmark::kMillisecond);

void advise_batch_8(benchmark::State& state) {
  const Config config = gpt2();
  for (auto _ : state) benchmark::DoNotOptimize(advise(config).list.size());
}
BENCHMARK(advise_batch_8)->Unit(benchmark::kMillisecond);

Config deep(std::int64_t layers) {
  Config config = gpt2(1);
  config.model.n_layer = layers;
  config.device.total_mib = config.device.free_mib = 1 << 20;  // never full: all depths do the same work
  return config;
}

/// Time and memory against depth. Target at 96: under 64 MiB of heap.
void layers(benchmark::State& state) {
  const Config config = deep(state.range(0));
  const auto run = [&] { benchmark::DoNotOptimize(replay(record(config), config, {.steps = 3}).peak.reserved); };
  for (auto _ : state) run();
  state.counters["heap_MiB"] = static_cast<double>(peak_heap(run)) / static_cast<double>(MiB);
}
BENCHMARK(layers)->Arg(12)->Arg(24)->Arg(48)->Arg(96)->Unit(benchmark::kMillisecond);

/// Time of 96 layers over time of 12, taken turn by turn so that a busy machine disturbs both alike. Target: at most 9.2.
void layers_96_over_12(benchmark::State& state) {
  const Config shallow = deep(12);
  const Config tall = deep(96);
  // Processor time: on a busy machine the clock on the wall measures the others.
  const auto seconds = [](const Config& config) {
    const std::clock_t begin = std::clock();
    benchmark::DoNotOptimize(replay(record(config), config, {.steps = 3}).peak.reserved);
    return static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
  };
  std::vector<double> ratios;
  for (auto _ : state) {
    double twelve = 1e9;
    for (int i = 0; i < 8; ++i) twelve = std::min(twelve, seconds(shallow));
    double ninety_six = 1e9;
    for (int i = 0; i < 3; ++i) ninety_six = std::min(ninety_six, seconds(tall));
    ratios.push_back(ninety_six / twelve);
  }
  std::sort(ratios.begin(), ratios.end());
  state.counters["median_ratio"] = ratios[ratios.size() / 2];
}
BENCHMARK(layers_96_over_12)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace whatfits
