#include "support.h"

#include <bit>
#include <cstring>
#include <fstream>
#include <stdexcept>

#include "whatfits/request.h"

namespace whatfits::native::test {

Config tiny(const std::string& changes) {
  nlohmann::json request = {
      {"model",
       {{"model_type", "gpt2-from-scratch"}, {"n_layer", 2}, {"n_embd", 48}, {"n_head", 3}, {"vocab_size", 211}, {"n_positions", 24}}},
      {"batch", 3},
      {"seq_len", 24}};
  request.merge_patch(nlohmann::json::parse(changes));
  const ParsedRequest parsed = parse_request(request);
  if (!parsed.problems.empty()) throw std::runtime_error(to_line(parsed.problems[0]));
  return parsed.config;
}

Program in_double(Program program) {
  for (Layout& layout : program.layouts) {
    if (layout.dtype == DType::float32) layout.dtype = DType::float64;
  }
  for (StorageInfo& s : program.storages) s.bytes *= 2;
  return program;
}

namespace {
ExecutorOptions with_lr(ExecutorOptions options) {
  if (options.hyper.lr == 0) options.hyper.lr = 1e-3;
  return options;
}
}  // namespace

Run::Run(Config config_, ExecutorOptions options, bool wide) : Run(config_, wide ? in_double(record(config_)) : record(config_), options) {}

Run::Run(Config config_, Program program_, ExecutorOptions options, std::unique_ptr<Batches> batches_)
    : config(std::move(config_)),
      program(std::move(program_)),
      source(config.device, false),
      batches(batches_ ? std::move(batches_) : std::make_unique<RandomBatches>(config.model.vocab_size, 1)),
      executor(program, config, source, kernels, *batches, with_lr(options)) {}

std::vector<double> values(const View& view) {
  std::vector<double> out(static_cast<std::size_t>(view.elements()));
  for (std::size_t i = 0; i < out.size(); ++i) {
    if (view.dtype == DType::float64) out[i] = static_cast<const double*>(view.data)[i];
    if (view.dtype == DType::float32) out[i] = static_cast<double>(static_cast<const float*>(view.data)[i]);
    if (view.dtype == DType::bfloat16)
      out[i] = static_cast<double>(std::bit_cast<float>(std::uint32_t{static_cast<const std::uint16_t*>(view.data)[i]} << 16));
  }
  return out;
}

void set_values(const View& view, const std::vector<double>& values) {
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (view.dtype == DType::float64) static_cast<double*>(view.data)[i] = values[i];
    if (view.dtype == DType::float32) static_cast<float*>(view.data)[i] = static_cast<float>(values[i]);
  }
}

nlohmann::json fixture(const std::string& name) {
  std::ifstream file(std::string(WHATFITS_FIXTURES) + "/" + name);
  if (!file) throw std::runtime_error("no fixture " + name);
  return nlohmann::json::parse(file);
}

}  // namespace whatfits::native::test
