#include "whatfits/pace.h"

#include <algorithm>

#include "analysis/saturating.h"

namespace whatfits {
namespace {

/// Works in place: what it writes it has read.
bool in_place(OpKind kind) {
  switch (kind) {
    case OpKind::add_:
    case OpKind::where:
    case OpKind::foreach_mul_:
    case OpKind::unscale_:
    case OpKind::embedding_backward:
    case OpKind::adamw:
    case OpKind::adamw_fused:
    case OpKind::adam:
    case OpKind::sgd:
    case OpKind::sgd_momentum:
    case OpKind::adagrad:
    case OpKind::rmsprop:
    case OpKind::adafactor:
    case OpKind::adamw_8bit:
    case OpKind::lion:
    case OpKind::muon:
      return true;
    default:
      return false;
  }
}

double bytes_moved(const Program& program, const OpInfo& op) {
  // Of a table only the rows that are looked up are read, as many as are written.
  const int first = op.kind == OpKind::embedding || op.kind == OpKind::index ? 1 : 0;
  double bytes = 0;
  for (int i = first; i < op.inputs + op.outputs; ++i) {
    const Layout& layout = program.layout_of(program.operands[op.first + static_cast<std::uint32_t>(i)]);
    const double once = static_cast<double>(layout.shape.elements()) * static_cast<double>(size_of(layout.dtype));
    bytes += i >= op.inputs && in_place(op.kind) ? 2 * once : once;
  }
  // One fused kernel reads gradient, weight and two moments and writes three of them, 28 bytes a weight; the same as a series of
  // kernels (decay, lerp, mul, addcmul, sqrt, div, add, addcdiv) is 84.
  return op.kind == OpKind::adamw || op.kind == OpKind::adam ? 3 * bytes : bytes;
}

std::int64_t rate_of(const Rates& rates, DType dtype) {
  switch (dtype) {
    case DType::bfloat16:
      return rates.bf16_gflops;
    case DType::float16:
      return rates.fp16_gflops;
    default:
      return rates.fp32_gflops;
  }
}

/// Nothing here is near 2^64, but a request may be absurd.
std::uint64_t whole(double n) { return n < 1e19 ? static_cast<std::uint64_t>(n + 0.5) : saturating::kMax; }

void find_measured(Pace& pace, std::uint64_t parameters) {
  for (const MeasuredPace& row : measured_paces()) {
    const bool near = row.parameters / 10 * 7 <= parameters && parameters <= row.parameters / 10 * 13;
    if (near) pace.measured.push_back(row);
  }
}

}  // namespace

double multiply_adds(const Program& program, const OpInfo& op) {
  const auto shape = [&](int operand) -> const Shape& {
    return program.layout_of(program.operands[op.first + static_cast<std::uint32_t>(operand)]).shape;
  };
  const auto elements = [](const Shape& s) { return static_cast<double>(s.elements()); };
  switch (op.kind) {
    case OpKind::mm:
    case OpKind::bmm:
      return elements(shape(op.inputs)) * static_cast<double>(shape(0)[-1].size);
    case OpKind::addmm:
    case OpKind::baddbmm:
      return elements(shape(op.inputs)) * static_cast<double>(shape(1)[-1].size);
    // Queries [B, NH, T, D] by keys [B, NH, T, D], then by values; half of it under a causal mask.
    case OpKind::sdpa_flash:
    case OpKind::sdpa_efficient:
      return elements(shape(0)) * static_cast<double>(shape(1)[2].size);
    // Scores again, then two products for each of values, probabilities: five where forward has two.
    case OpKind::sdpa_flash_backward:
    case OpKind::sdpa_efficient_backward:
      return elements(shape(op.inputs)) * static_cast<double>(shape(op.inputs + 1)[2].size) * 5 / 2;
    default:
      return 0;
  }
}

std::uint64_t Pace::tokens_per_second(std::uint64_t microseconds) const {
  if (microseconds == 0) return 0;
  return whole(static_cast<double>(tokens) * static_cast<double>(ranks) * 1e6 / static_cast<double>(microseconds));
}

int Pace::percent_of(const Pace& other) const {
  const auto middle = [](const Pace& pace) {
    return (static_cast<double>(pace.fastest_us) + static_cast<double>(pace.slowest_us)) /
           static_cast<double>(std::max<std::uint64_t>(pace.tokens, 1));
  };
  if (fastest_us == 0 || other.fastest_us == 0) return 0;
  return static_cast<int>(std::min(100 * middle(*this) / middle(other), 1e6) + 0.5);
}

std::string assumed_shares() {
  const auto range = [](int low, int high) { return std::to_string(low) + " to " + std::to_string(high); };
  return "products at " + range(kMatrixPercent.worst, kMatrixPercent.best) + " % of the card's peak, the rest at " +
         range(kBandwidthPercent.worst, kBandwidthPercent.best) + " % of its bandwidth, " +
         range(kLaunchMicroseconds.best, kLaunchMicroseconds.worst) + " µs to launch an operator";
}

Pace pace(const Program& program, const Config& config) {
  const Rates& rates = config.device.rates;
  Pace result;
  const double tokens =
      static_cast<double>(config.batch) * static_cast<double>(config.seq_len) * static_cast<double>(config.grad_accumulation);
  result.tokens = whole(tokens);
  // Ranks that share each matrix work on the same tokens.
  if (config.parallel) result.ranks = static_cast<std::uint64_t>(config.parallel->gpus / config.parallel->tensor);
  const ModelConfig& model = config.model;
  result.flops_by_rule =
      whole((6 * static_cast<double>(program.parameters) +
             12 * static_cast<double>(model.n_layer) * static_cast<double>(model.n_embd) * static_cast<double>(config.seq_len)) *
            tokens);
  double flops = 0;
  double again = 0;
  double bytes = 0;
  double optimizer = 0;
  // Microseconds at a share of 100 %: a GFLOP/s does a thousand operations in one, a MB/s moves one byte.
  double products = 0;
  double traffic = 0;
  bool by_rate = true;
  Phase phase = Phase::forward;
  for (std::size_t i = program.repeat_begin; i < program.events.size(); ++i) {
    const Event& event = program.events[i];
    if (event.kind == EventKind::phase) phase = static_cast<Phase>(event.index);
    if (event.kind != EventKind::op) continue;
    const OpInfo& op = program.ops[event.index];
    ++result.operators;
    if (const double work = 2 * multiply_adds(program, op); work > 0) {
      const DType dtype = program.layout_of(program.operands[op.first + op.inputs]).dtype;
      const std::int64_t rate = rate_of(rates, dtype);
      flops += work;
      if ((op.flags & op_flags::recomputed) != 0) again += work;
      if (rate > 0) products += work / (static_cast<double>(rate) * 1000);
      if (rate == 0 && by_rate) {
        by_rate = false;
        result.unknown =
            "the rate at which " + config.device.name + " multiplies " + std::string(name_of(dtype)) + " matrices is not known";
      }
      continue;
    }
    const double moved = bytes_moved(program, op);
    bytes += moved;
    if (phase == Phase::optimizer_step) optimizer += moved;
  }
  result.flops = whole(flops);
  result.flops_again = whole(again);
  result.bytes = whole(bytes);
  result.optimizer_bytes = whole(optimizer);
  find_measured(result, program.parameters);
  if (rates.bandwidth_mbs == 0) {
    if (by_rate) result.unknown = "the memory bandwidth of " + config.device.name + " is not known";
    return result;
  }
  if (!by_rate) return result;
  traffic = bytes / static_cast<double>(rates.bandwidth_mbs);
  const auto duration = [&](int products_percent, int traffic_percent, int launch) {
    const double on_card = products * 100 / products_percent + traffic * 100 / traffic_percent;
    const double on_host = static_cast<double>(result.operators) * launch;
    return whole(std::max(on_card, on_host));
  };
  result.fastest_us = duration(kMatrixPercent.best, kBandwidthPercent.best, kLaunchMicroseconds.best);
  result.slowest_us = duration(kMatrixPercent.worst, kBandwidthPercent.worst, kLaunchMicroseconds.worst);
  return result;
}

}  // namespace whatfits
