// Small runs with real memory and real kernels.
#pragma once

#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cpu/cpu_kernels.h"
#include "measure/executor.h"
#include "measure/host_source.h"
#include "whatfits/estimate.h"

namespace whatfits::native::test {

/// A request of two tiny layers with `changes` over it.
Config tiny(const std::string& changes = "{}");

/// The same program in double: every float32 becomes a float64, every storage twice as large.
Program in_double(Program program);

/// Everything an Executor wants, kept together.
struct Run {
  explicit Run(Config config_, ExecutorOptions options = {}, bool wide = false);
  Run(Config config_, Program program_, ExecutorOptions options, std::unique_ptr<Batches> batches_ = nullptr);
  Config config;
  Program program;
  HostSource source;
  CpuKernels kernels;
  std::unique_ptr<Batches> batches;
  Executor executor;
};

/// The numbers of a tensor, packed, widened from float32, float64 or bfloat16.
std::vector<double> values(const View& view);
void set_values(const View& view, const std::vector<double>& values);

nlohmann::json fixture(const std::string& name);

}  // namespace whatfits::native::test
