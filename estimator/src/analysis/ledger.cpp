#include "analysis/ledger.h"

#include "analysis/replay.h"
#include "models/training.h"
#include "whatfits/estimate.h"
#include "whatfits/picture.h"

namespace whatfits {

namespace {

LedgerRow row_of(const Program& program, const StorageInfo& storage) {
  const Layout& layout = program.layout_of(storage.tensor);
  LedgerRow row;
  row.category = storage.category;
  row.label = program.labels[storage.label];
  if (row.label.empty()) row.label = std::string(name_of(storage.op));
  row.layer = storage.layer;
  row.op = storage.op;
  const Shape& shape = layout.shape;
  for (int i = 0; i < shape.rank; ++i) row.shape.push_back(shape[i].size);
  row.dtype = layout.dtype;
  row.bytes = storage.bytes;
  row.formula = formula_of(program, layout);
  return row;
}

bool alike(const LedgerRow& a, const LedgerRow& b) {
  return a.category == b.category && a.label == b.label && a.layer == b.layer && a.op == b.op && a.shape == b.shape && a.dtype == b.dtype;
}

}  // namespace

Ledger make_sums(const Program& program, const Config& config, std::uint64_t event, int steps, std::vector<bool>& alive) {
  Replay run(program, config.device, config.allocator);
  Ledger ledger;
  const Replay::Observer observer = [&](const ReplayEvent& e) {
    const StorageInfo& storage = program.storages[e.storage];
    ledger.at = {e.step, e.phase, e.layer, storage.op, e.event, e.alloc ? storage.bytes : 0};
    ledger.counters = e.counters;
    return e.event < event;
  };
  run.run({.steps = steps}, &observer);

  alive = run.alive();
  Bytes requested = 0;
  for (StorageId id = 0; id < alive.size(); ++id) {
    if (!alive[id]) continue;
    const StorageInfo& storage = program.storages[id];
    requested += storage.bytes;
    ledger.categories[static_cast<std::size_t>(storage.category)] += storage.bytes;
  }
  ledger.categories[static_cast<std::size_t>(Category::rounding)] = ledger.counters.allocated - requested;
  return ledger;
}

Ledger make_ledger(const Program& program, const Config& config, std::uint64_t event, int steps) {
  std::vector<bool> alive;
  Ledger ledger = make_sums(program, config, event, steps, alive);
  for (StorageId id = 0; id < alive.size(); ++id) {
    if (!alive[id]) continue;
    LedgerRow row = row_of(program, program.storages[id]);
    // Two statistics of one layer norm, say: neighbours alike share a row.
    if (!ledger.rows.empty() && alike(ledger.rows.back(), row)) {
      ++ledger.rows.back().count;
      ledger.rows.back().bytes += row.bytes;
    } else {
      ledger.rows.push_back(std::move(row));
    }
  }
  std::vector<LedgerRow> by_category;
  by_category.reserve(ledger.rows.size() + 1);
  for (int category = 0; category < kCategories; ++category) {
    for (LedgerRow& row : ledger.rows) {
      if (row.category == static_cast<Category>(category)) by_category.push_back(std::move(row));
    }
  }
  ledger.rows = std::move(by_category);
  LedgerRow rounding;
  rounding.category = Category::rounding;
  rounding.label = "rounding to blocks";
  rounding.bytes = ledger.categories[static_cast<std::size_t>(Category::rounding)];
  ledger.rows.push_back(std::move(rounding));
  return ledger;
}

Ledger ledger_at(const Program& program, const Config& config, std::uint64_t event) {
  return make_ledger(program, config, event, static_cast<int>(config.steps));
}

Ledger ledger_at(const Config& config, std::uint64_t event) { return ledger_at(record(config), config, event); }

}  // namespace whatfits
