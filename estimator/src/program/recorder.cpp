#include "program/recorder.h"

#include <limits>

namespace whatfits {

namespace {

constexpr LayoutId kVacant = std::numeric_limits<LayoutId>::max();

std::size_t hash_of(const Layout& layout) {
  const auto u = [](std::int64_t n) { return static_cast<std::uint64_t>(n); };
  std::uint64_t hash = u(layout.shape.rank) + 8 * u(layout.offset) + (u(static_cast<std::int64_t>(layout.dtype)) << 56);
  for (int i = 0; i < layout.shape.rank; ++i) {
    const std::uint64_t dim = u(layout.shape[i].size) * 0xff51afd7ed558ccd + u(layout.shape[i].letters) * 0xc4ceb9fe1a85ec53 +
                              u(layout.strides[static_cast<std::size_t>(i)]) * 0xd6e8feb86659fd93;
    hash = (hash ^ dim) * 0x9e3779b97f4a7c15;
    hash ^= hash >> 32;
  }
  return static_cast<std::size_t>(hash);
}

bool same(const Layout& a, const Layout& b) {
  if (a.offset != b.offset || a.dtype != b.dtype || a.shape.rank != b.shape.rank) return false;
  for (int i = 0; i < a.shape.rank; ++i) {
    const auto at = static_cast<std::size_t>(i);
    if (a.shape[i].size != b.shape[i].size || a.shape[i].letters != b.shape[i].letters || a.strides[at] != b.strides[at]) return false;
  }
  return true;
}

}  // namespace

Recorder::Recorder(std::size_t block_runs) : label_index_(2048, kVacant), layout_index_(512, kVacant) {
  // What a GPT-2 block of eager attention with AdamW takes, forward, backward and update; others are not far from it.
  program.events.reserve(264 * block_runs);
  program.storages.reserve(96 * block_runs);
  program.tensors.reserve(176 * block_runs);
  program.ops.reserve(76 * block_runs);
  program.operands.reserve(232 * block_runs);
}

StorageId Recorder::alloc(Bytes bytes, OpKind op) {
  const StorageId id = declare(bytes, op);
  alloc(id);
  return id;
}

StorageId Recorder::declare(Bytes bytes, OpKind op) {
  const auto id = static_cast<StorageId>(program.storages.size());
  StorageInfo info;
  info.bytes = bytes;
  info.layer = layer_;
  info.op = op;
  info.phase = phase_;
  info.stream = stream;
  program.storages.push_back(info);
  return id;
}

void Recorder::free(StorageId storage) { push(EventKind::free, storage); }

LayoutId Recorder::layout(const Layout& layout) {
  const auto place_of = [this](const Layout& wanted) {
    std::size_t place = hash_of(wanted) % layout_index_.size();
    while (layout_index_[place] != kVacant && !same(program.layouts[layout_index_[place]], wanted)) {
      place = (place + 1) % layout_index_.size();
    }
    return place;
  };
  const std::size_t place = place_of(layout);
  if (layout_index_[place] != kVacant) return layout_index_[place];
  const auto id = static_cast<LayoutId>(program.layouts.size());
  program.layouts.push_back(layout);
  layout_index_[place] = id;
  if (2 * program.layouts.size() > layout_index_.size()) {
    layout_index_.assign(2 * layout_index_.size(), kVacant);
    for (LayoutId k = 0; k <= id; ++k) layout_index_[place_of(program.layouts[k])] = k;
  }
  return id;
}

TensorId Recorder::tensor(const TensorInfo& info) {
  program.tensors.push_back(info);
  return static_cast<TensorId>(program.tensors.size() - 1);
}

void Recorder::at_work(OpInfo& info) const {
  info.layer = layer_;
  if (recomputing) info.flags |= op_flags::recomputed;
}

void Recorder::op(OpInfo info, std::initializer_list<TensorId> inputs, std::initializer_list<TensorId> outputs,
                  std::initializer_list<TensorId> scratch) {
  at_work(info);
  info.first = static_cast<std::uint32_t>(program.operands.size());
  info.inputs = static_cast<std::uint16_t>(inputs.size());
  info.outputs = static_cast<std::uint16_t>(outputs.size());
  info.scratch = static_cast<std::uint16_t>(scratch.size());
  for (const auto& list : {inputs, outputs, scratch}) program.operands.insert(program.operands.end(), list);
  program.ops.push_back(info);
  push(EventKind::op, static_cast<std::uint32_t>(program.ops.size() - 1));
}

void Recorder::op(OpInfo info, const std::vector<TensorId>& operands) {
  at_work(info);
  info.first = static_cast<std::uint32_t>(program.operands.size());
  program.operands.insert(program.operands.end(), operands.begin(), operands.end());
  program.ops.push_back(info);
  push(EventKind::op, static_cast<std::uint32_t>(program.ops.size() - 1));
}

void Recorder::phase(Phase phase) {
  phase_ = phase;
  push(EventKind::phase, static_cast<std::uint32_t>(phase));
}

void Recorder::layer(std::int16_t layer) {
  if (layer == layer_) return;
  layer_ = layer;
  push(EventKind::layer, static_cast<std::uint16_t>(layer));
}

std::uint32_t Recorder::label(std::string_view text) {
  const auto place_of = [this](std::string_view wanted) {
    std::size_t place = 2166136261;  // FNV-1a
    for (const char c : wanted) place = (place ^ static_cast<unsigned char>(c)) * 16777619 & 0xffffffff;
    while (label_index_[place %= label_index_.size()] != kVacant && program.labels[label_index_[place]] != wanted) ++place;
    return place;
  };
  const std::size_t place = place_of(text);
  if (label_index_[place] != kVacant) return label_index_[place];
  const auto index = static_cast<std::uint32_t>(program.labels.size());
  program.labels.emplace_back(text);
  label_index_[place] = index;
  if (2 * program.labels.size() > label_index_.size()) {
    label_index_.assign(2 * label_index_.size(), kVacant);
    for (std::uint32_t k = 0; k <= index; ++k) label_index_[place_of(program.labels[k])] = k;
  }
  return index;
}

void Recorder::finish() {
  // Born in a step before and freed in the repeated one: in every later step the counterpart, born in the step before, is freed instead.
  // Counterparts stand in the same order among what a step leaves behind.
  const std::size_t n = program.storages.size();
  enum : std::uint8_t { setup, before, repeated };
  std::vector<std::uint8_t> born(n, setup);
  std::vector<std::uint8_t> freed_in_repeated(n, 0);
  std::vector<StorageId> left;
  for (std::size_t i = program.setup_end; i < program.events.size(); ++i) {
    const Event& e = program.events[i];
    if (e.kind == EventKind::alloc) born[e.index] = i < program.repeat_begin ? before : repeated;
    if (e.kind == EventKind::free && i >= program.repeat_begin) freed_in_repeated[e.index] = 1;
  }
  std::vector<StorageId> taken_over;
  for (StorageId id = 0; id < n; ++id) {
    if (born[id] == before && freed_in_repeated[id]) taken_over.push_back(id);
    if (born[id] == repeated && !freed_in_repeated[id]) left.push_back(id);
  }
  const std::size_t pairs = taken_over.size() < left.size() ? taken_over.size() : left.size();
  for (std::size_t i = 0; i < pairs; ++i) program.carries.push_back({taken_over[i], left[i]});
}

}  // namespace whatfits
