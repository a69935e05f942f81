#include "whatfits/estimate.h"

#include <limits>

#include "analysis/accounts.h"
#include "analysis/ledger.h"
#include "analysis/replay.h"
#include "analysis/report.h"
#include "whatfits/near.h"
#include "whatfits/picture.h"

namespace whatfits {

std::string format_size(Bytes bytes) {
  // c10's format_size: two decimals of an exact quotient by a power of two, ties to even.
  if (bytes <= KiB) return std::to_string(bytes) + " bytes";
  const Bytes unit = bytes <= MiB ? KiB : bytes <= GiB ? MiB : GiB;
  const Bytes whole = bytes / unit;
  const Bytes rest = bytes % unit * 100;
  Bytes hundredths = rest / unit;
  const Bytes left = rest % unit;
  if (2 * left > unit || (2 * left == unit && hundredths % 2 == 1)) ++hundredths;
  const Bytes carry = hundredths / 100;
  const Bytes decimals = hundredths % 100;
  std::string text = std::to_string(whole + carry);
  text += decimals < 10 ? ".0" : ".";
  text += std::to_string(decimals);
  text += unit == KiB ? " KiB" : unit == MiB ? " MiB" : " GiB";
  return text;
}

namespace {

void parallel_notes(const Config& config, std::int64_t rank, std::vector<std::string>& notes) {
  const std::string of_ranks = "rank " + std::to_string(rank) + " of " + std::to_string(config.parallel->gpus) + " ranks";
  const Parallel::Strategy strategy = config.parallel->strategy;
  if (config.parallel->tensor > 1) {
    notes.push_back(of_ranks +
                    ", all alike: parallelize_module with ColwiseParallel for q, k, v, gate, up and the head, RowwiseParallel for o, down "
                    "and the embedding, whole logits on every rank; norms are whole, in the optimizer's second group");
  } else if (!config.parallel->fully_sharded()) {
    const bool zero = strategy == Parallel::Strategy::zero1;
    notes.push_back(of_ranks + (zero ? ", the one with the most" : ", all alike") +
                    ": DistributedDataParallel(model, device_ids=[rank]) with its defaults, gradients "
                    "synchronised in every micro-batch");
    if (zero) {
      notes.push_back(
          "zero1 is ZeroRedundancyOptimizer around the optimizer: each rank has the state of some parameters, given out whole by size");
    }
  } else {
    notes.push_back(of_ranks +
                    ", the one with the most: every parameter is cut along its first dimension into equal pieces, "
                    "and what is missing to them is missing in the last ranks");
    notes.push_back(
        "fully_shard on each block and then on the model, with its defaults, on the meta device; then memory for shards and "
        "buffers alone");
    if (strategy != Parallel::Strategy::fsdp) {
      notes.push_back(
          strategy == Parallel::Strategy::zero3
              ? "zero3 is fully_shard, which shards parameters, gradients and optimizer state"
              : "zero2 is fully_shard with reshard_after_forward=False: parameters are whole from forward to the end of backward");
    }
    if (config.precision == Precision::amp_bf16) {
      notes.push_back("amp-bf16 is MixedPrecisionPolicy(param_dtype=bfloat16, reduce_dtype=float32), not autocast");
    }
  }
  notes.push_back(
      "collectives hold no memory beyond their call: NCCL's own buffers (by default 4 MiB for each channel and peer) are not "
      "PyTorch's and not counted, and a tensor that NCCL's stream still uses is not held back; lower free_mib by what you see");
  notes.push_back("the time of a step is of the rank's own kernels, without what collectives take; its tokens are of all ranks");
}

std::string calibration_words(const Config& config) {
  const Calibration& calibration = *config.calibration;
  std::string words = std::to_string(config.device.free_mib + calibration.extra_mib) + " MiB of " +
                      std::to_string(config.device.total_mib) + " are free on the card";
  if (calibration.extra_mib > 0) {
    words += ", of which " + std::to_string(calibration.extra_mib) +
             " are set aside for what a measured run held at its peak beyond the prediction";
  }
  return words + (calibration.from.empty() ? "" : ": " + calibration.from);
}

/// What is alive at the peak is the caller's.
Report report_of(const Config& config, const Program& program, Trace trace) {
  Report report;
  report.request = config;
  report.parameters = program.parameters;
  report.rank = program.rank;
  report.pace = pace(program, config);
  report.device_peak = trace.peak.reserved + static_cast<Bytes>(config.device.total_mib - config.device.free_mib) * MiB;
  report.trace = std::move(trace);

  auto& notes = report.assumptions;
  notes.push_back("PyTorch " + config.torch + ": its operators, autograd and caching allocator, replayed event by event");
  if (config.device.compute_capability >= 100) {
    notes.push_back(
        "PyTorch 2.6 was built for compute capabilities up to 9.0: a later one, which this card needs, is taken to run the same");
  }
  if (config.calibration) {
    notes.push_back(calibration_words(config));
  } else {
    notes.push_back("nothing else on the card: " + std::to_string(config.device.free_mib) + " MiB of " +
                    std::to_string(config.device.total_mib) + " are free once the CUDA context exists");
  }
  if (config.device.total_assumed) notes.push_back("the card's total is assumed: the driver's figure less 1.5 %");
  if (config.device.free_assumed) notes.push_back("what is free on the card is assumed: its total less a context of 500 MiB");
  notes.push_back("the driver hands out addresses in pieces of 32 MiB, each new one below the last, as traces of real cards show");
  if (config.parallel) parallel_notes(config, program.rank, notes);
  const std::vector<std::string> modelled = described(config);
  notes.insert(notes.end(), modelled.begin(), modelled.end());
  notes.insert(notes.end(), program.notes.begin(), program.notes.end());
  return report;
}

}  // namespace

Report make_report(const Config& config, const Program& program, Trace trace) {
  Report report = report_of(config, program, std::move(trace));
  const int steps = static_cast<int>(report.trace.steps.size());
  report.program_hash = program_hash(program);
  report.trace_hash = trace_hash(program, config, steps);
  report.ledger = make_ledger(program, config, report.trace.peak_at.event, steps);
  return report;
}

Report make_summary(const Config& config, const Program& program, Trace trace) {
  Report report = report_of(config, program, std::move(trace));
  std::vector<bool> alive;
  report.ledger = make_sums(program, config, report.trace.peak_at.event, static_cast<int>(report.trace.steps.size()), alive);
  return report;
}

Account formula_account(const Config& config) {
  GeneralAccount general = general_account(config);
  Account account;
  account.parameters = general.parameters;
  for (const ClosedLine& line : general.lines) {
    LedgerRow& row = account.rows.emplace_back();
    row.label = line.label;
    row.formula = line.formula;
    row.bytes = line.bytes;
    for (int i = 0; i < kCategories; ++i) {
      if (line.category == name_of(static_cast<Category>(i))) row.category = static_cast<Category>(i);
    }
  }
  account.allocated = general.total;
  // Reserved by the one ratio that was measured. Multiplied before divided, saturating: a formula knows no limits.
  const MeasuredConstants constants = derive(published_readings());
  const bool calibrated = config.calibration && config.calibration->reserved_per_mille > 0;
  const Bytes over = calibrated ? static_cast<Bytes>(config.calibration->reserved_per_mille) : constants.reserved;
  const Bytes under = calibrated ? 1000 : constants.allocated;
  const Bytes most = std::numeric_limits<Bytes>::max() / over;
  account.reserved = account.allocated > most ? std::numeric_limits<Bytes>::max() : account.allocated * over / under;
  account.assumptions.push_back("a closed form: weights, gradients, optimizer state and saved activations by formula, nothing replayed");
  if (config.calibration) account.assumptions.push_back(calibration_words(config));
  account.assumptions.push_back(calibrated ? "reserved is allocated times the ratio that was measured, " +
                                                 std::to_string(config.calibration->reserved_per_mille) + " to 1000: a heuristic"
                                           : "reserved is allocated times the one ratio measured on an A40, about 1.11: a heuristic");
  account.assumptions.insert(account.assumptions.end(), general.notes.begin(), general.notes.end());
  return account;
}

Report account_report(const Config& config) {
  Account account = config.engine == Engine::llm_c ? llm_c_account(config)
                    : config.engine == Engine::mlx ? mlx_account(config)
                                                   : formula_account(config);
  Report report;
  report.by_formula = true;
  report.request = config;
  report.parameters = account.parameters;
  Ledger& ledger = report.ledger;
  ledger.rows = std::move(account.rows);
  for (const LedgerRow& row : ledger.rows) ledger.categories[static_cast<std::size_t>(row.category)] += row.bytes;
  ledger.counters = {account.allocated, account.reserved};
  report.trace.peak = ledger.counters;
  report.device_peak = account.reserved + static_cast<Bytes>(config.device.total_mib - config.device.free_mib) * MiB;
  const Bytes free = static_cast<Bytes>(config.device.free_mib) * MiB;
  if (account.reserved > free) {
    OutOfMemory oom;
    oom.segment = oom.tensor = account.reserved;
    oom.free = free;
    oom.counters = oom.peak = ledger.counters;
    oom.message = std::string(config.engine == Engine::llm_c ? "llm.c's " : "the formula's ") + format_size(account.reserved) +
                  " exceed the " + format_size(free) + " that are free";
    report.trace.oom = std::move(oom);
  }
  report.assumptions = std::move(account.assumptions);
  return report;
}

Report estimate(const Program& program, const Config& config) {
  return make_report(config, program, replay(program, config, {.steps = static_cast<int>(config.steps)}));
}

Report summary(const Program& program, const Config& config) {
  return make_summary(config, program, replay(program, config, {.steps = static_cast<int>(config.steps)}));
}

Report estimate(const Config& config) { return config.engine == Engine::torch ? estimate(record(config), config) : account_report(config); }

Explanation explain(const Config& config) {
  Explanation explanation;
  Config replayed = config;
  replayed.engine = Engine::torch;
  explanation.report = estimate(replayed);
  explanation.general = general_account(config, explanation.report.parameters);
  if (config.parallel) explanation.general.notes.push_back("the closed forms are of one card that trains alone; the replay is of one rank");
  explanation.measured = estimate(derive(published_readings()), config);
  return explanation;
}

}  // namespace whatfits
