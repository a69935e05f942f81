#include "measure/executor.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numbers>

namespace whatfits::native {

namespace {

/// float32 to the 16-bit types, to nearest even. Only for numbers of ordinary size: initial weights.
std::uint16_t to_bfloat16(float x) {
  const auto bits = std::bit_cast<std::uint32_t>(x);
  return static_cast<std::uint16_t>((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16);
}

}  // namespace

Executor::Executor(const Program& program, const Config& config, NativeSource& source, KernelSet& kernels, Batches& batches,
                   const ExecutorOptions& options)
    : program_(program),
      source_(source),
      kernels_(kernels),
      batches_(batches),
      options_(options),
      walk_(program, config.device, config.allocator, source, *this),
      micro_batches_(options.micro_batches_before),
      optimizer_steps_(options.steps_before) {
  for (StorageId id = 0; id < program.storages.size(); ++id) {
    if (program.storages[id].category == Category::workspaces) workspaces_.push_back(id);
  }
}

View Executor::view(TensorId tensor) const {
  const TensorInfo& info = program_.tensors[tensor];
  const Layout& layout = program_.layouts[info.layout];
  View v;
  const Bytes offset = static_cast<Bytes>(layout.offset) * size_of(layout.dtype);
  v.data = static_cast<char*>(source_.pointer(walk_.address(info.storage))) + offset;
  v.dtype = layout.dtype;
  v.rank = layout.shape.rank;
  v.strides = layout.strides;
  for (int i = 0; i < v.rank; ++i) v.sizes[static_cast<std::size_t>(i)] = layout.shape[i].size;
  v.bytes = program_.storages[info.storage].bytes - offset;
  return v;
}

/// Each thread of PyTorch's has a cuBLAS handle and that a workspace; the backward thread's was asked for in a backward phase.
View Executor::workspace() const {
  const bool backward = walk_.phase() == Phase::backward;
  for (const StorageId id : workspaces_) {
    const StorageInfo& storage = program_.storages[id];
    if ((storage.phase == Phase::backward) == backward && walk_.alive(id)) return view(storage.tensor);
  }
  return {};
}

bool Executor::step() {
  loss_sum_ = 0;
  losses_ = 0;
  overflowed_ = updated_ = false;
  found_inf_ = {};
  if (!walk_.step()) return false;
  kernels_.synchronize();
  loss_ = losses_ == 0 ? 0 : loss_sum_ / losses_;
  return true;
}

double Executor::scalar_of(const View& view) const {
  if (view.dtype == DType::float64) {
    double x = 0;
    kernels_.read(&x, view.data, sizeof x);
    return x;
  }
  std::uint32_t bits = 0;
  kernels_.read(&bits, view.data, size_of(view.dtype));
  if (view.dtype == DType::bfloat16) bits <<= 16;
  return std::bit_cast<float>(bits);
}

bool Executor::updates_parameters(OpKind kind) const {
  return kind == OpKind::adamw || kind == OpKind::adamw_fused || kind == OpKind::sgd || kind == OpKind::sgd_momentum;
}

/// Optimizer state is born in step 1, by a fill or (momentum) a copy of the gradient.
bool Executor::restored(const OpInfo& op, TensorId output) {
  if (!restore || walk_.step_number() != 1 || (op.kind != OpKind::fill && op.kind != OpKind::copy)) return false;
  const StorageInfo& storage = program_.storages[program_.tensors[output].storage];
  return storage.category == Category::optimizer_state && restore(program_.labels[storage.label], view(output));
}

void Executor::op(const OpInfo& op) {
  const TensorId* const ids = program_.operands.data() + op.first;
  const std::size_t inputs = op.inputs;
  const std::size_t outputs = op.outputs;
  if (outputs > 0 && restored(op, ids[inputs])) return;
  operands_.clear();
  for (std::size_t i = 0; i < inputs + outputs + op.scratch; ++i) operands_.push_back(view(ids[i]));
  const std::span<const View> all(operands_);
  if (op.kind == OpKind::randint) return make_ids(all[inputs]);
  if (op.kind == OpKind::randn) return make_normal(all[inputs], ids[inputs], op.scalar);

  OpCall call{.kind = op.kind,
              .flags = op.flags,
              .scalar = op.scalar,
              .inputs = all.first(inputs),
              .outputs = all.subspan(inputs, outputs),
              .scratch = all.subspan(inputs + outputs),
              .hyper = &options_.hyper,
              .step = optimizer_steps_ + 1};
  if (updates_parameters(op.kind)) {
    if (found_inf_.data && !updated_) overflowed_ = scalar_of(found_inf_) != 0;
    updated_ = true;
    if (overflowed_) return;
    // A momentum that came out of a checkpoint is not this step's gradient.
    if (options_.steps_before > 0) call.flags &= static_cast<std::uint8_t>(~op_flags::fresh_momentum);
  }
  if (op.kind == OpKind::mm || op.kind == OpKind::addmm || op.kind == OpKind::bmm) call.workspace = workspace();
  kernels_.run(call);
  if (op.kind == OpKind::unscale_) found_inf_ = call.outputs[1];
  if (op.kind == OpKind::nll_loss) {
    loss_sum_ += scalar_of(call.outputs[0]);
    ++losses_;
  }
}

void Executor::freeing(Address address, Bytes bytes) {
  if (options_.poison) kernels_.poison(source_.pointer(address), bytes);
}

void Executor::reading(Reading reading) {
  if (reading == Reading::after_optimizer_step && updated_ && !overflowed_) ++optimizer_steps_;
  if (on_reading) on_reading(reading);
  block_ = kNoLayer;
  point(kNoLayer, reading);
}

/// Backward steps out of a block and in again at every leaf's gradient: only another block counts there.
void Executor::layer(std::int16_t layer) {
  if (layer == block_ || (layer == kNoLayer && walk_.phase() == Phase::backward)) return;
  block_ = layer;
  point(layer, std::nullopt);
}

void Executor::point(std::int16_t layer, std::optional<Reading> reading) const {
  if (!on_point || walk_.step_number() == 0) return;
  on_point({.step = walk_.step_number(),
            .phase = walk_.phase(),
            .layer = layer,
            .reading = reading,
            .counters = {allocator().allocated(), allocator().reserved()}});
}

void Executor::make_ids(const View& out) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(out.elements()));
  batches_.fill(ids, out.size(0), micro_batches_++);
  kernels_.write(out.data, ids.data(), ids.size() * sizeof ids[0]);
}

/// Box and Muller's pairs out of a counter: the same numbers on every device and with any number of threads.
void Executor::make_normal(const View& out, TensorId tensor, double deviation) {
  constexpr std::int64_t kChunk = 1 << 20;
  const std::int64_t n = out.elements();
  const Bytes element = size_of(out.dtype);
  std::vector<char> chunk(static_cast<std::size_t>(std::min(n, kChunk)) * element);
  for (std::int64_t begin = 0; begin < n; begin += kChunk) {
    const std::int64_t count = std::min(kChunk, n - begin);
#pragma omp parallel for schedule(static)
    for (std::int64_t pair = 0; pair < (count + 1) / 2; ++pair) {
      const std::uint64_t bits = random_bits(options_.seed + (std::uint64_t{tensor} << 40), static_cast<std::uint64_t>(begin / 2 + pair));
      const double u = (static_cast<double>(bits >> 32) + 0.5) * 0x1p-32;
      const double angle = static_cast<double>(bits & 0xFFFFFFFF) * (0x1p-31 * std::numbers::pi);
      const double radius = deviation * std::sqrt(-2 * std::log(u));
      const double values[2] = {radius * std::cos(angle), radius * std::sin(angle)};
      for (std::int64_t k = 0; k < 2 && 2 * pair + k < count; ++k) {
        char* const at = chunk.data() + static_cast<Bytes>(2 * pair + k) * element;
        const auto put = [at](auto value) { __builtin_memcpy(at, &value, sizeof value); };
        if (out.dtype == DType::float64) put(values[k]);
        if (out.dtype == DType::float32) put(static_cast<float>(values[k]));
        if (out.dtype == DType::bfloat16) put(to_bfloat16(static_cast<float>(values[k])));
      }
    }
    kernels_.write(static_cast<char*>(out.data) + static_cast<Bytes>(begin) * element, chunk.data(), static_cast<Bytes>(count) * element);
  }
}

std::vector<NamedTensor> Executor::named(Category category) const {
  std::vector<NamedTensor> list;
  for (StorageId id = 0; id < program_.storages.size(); ++id) {
    const StorageInfo& storage = program_.storages[id];
    if (storage.category == category && walk_.alive(id)) list.push_back({program_.labels[storage.label], category, view(storage.tensor)});
  }
  return list;
}

std::vector<NamedTensor> Executor::persistent() const {
  std::vector<NamedTensor> list = named(Category::parameters);
  for (NamedTensor& state : named(Category::optimizer_state)) list.push_back(std::move(state));
  return list;
}

}  // namespace whatfits::native
