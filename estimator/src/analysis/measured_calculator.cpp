// The measured calculator. Every constant is derived here from the published readings; none is written down.
#include <algorithm>
#include <utility>

#include "analysis/saturating.h"
#include "whatfits/closed_forms.h"

namespace whatfits {
namespace {

using saturating::add;
using saturating::dimension;
using saturating::nearest;
using saturating::product;
using saturating::subtract;

/// (V + P)·C + L·(12·C² + 13·C) + 2·C: the head is the token embedding, biases and LayerNorms count.
std::uint64_t gpt2_parameters(const ModelConfig& model) {
  const std::uint64_t C = dimension(model.n_embd), L = dimension(model.n_layer);
  const std::uint64_t tables = product({add(dimension(model.vocab_size), dimension(model.n_positions)), C});
  const std::uint64_t block = add(product({12, C, C}), product({13, C}));
  return add(add(tables, product({L, block})), product({2, C}));
}

/// "16·L·B·T·C·4" of 64 bytes per L·B·T·C in elements of four bytes.
std::string formula(Bytes per_unit, const char* unit, Bytes element) {
  const Bytes values = per_unit / element;
  return (values == 1 ? "" : std::to_string(values) + "·") + unit + "·" + std::to_string(element);
}

std::vector<std::string> departures(const Config& config) {
  std::vector<std::string> notes;
  if (config.model.model_type != "gpt2-from-scratch")
    notes.emplace_back("measured on GPT-2 written from scratch, not on " + config.model.model_type);
  if (config.precision != Precision::fp32) notes.emplace_back("measured in fp32: 16-bit tensors are counted at 4 bytes");
  if (config.attention != Attention::eager) notes.emplace_back("measured with explicit attention: the T² matrices are counted");
  if (config.optimizer == Optimizer::sgd || config.optimizer == Optimizer::sgd_momentum)
    notes.emplace_back("measured with AdamW: two moments a parameter are counted");
  if (config.checkpointing != Checkpointing::none)
    notes.emplace_back("measured without checkpointing: every block's activations are counted");
  if (config.grad_accumulation > 1) notes.emplace_back("measured without accumulation: no gradients are counted at the peak");
  if (config.zero_grad != ZeroGrad::set_to_none) notes.emplace_back("measured with gradients set to none: none are counted at the peak");
  if (config.allocator.expandable_segments)
    notes.emplace_back("the ratio of reserved to allocated was measured without expandable segments");
  return notes;
}

}  // namespace

MeasuredReadings published_readings() {
  return
#include "analysis/published_table.inc"
      ;
}

MeasuredConstants derive(const MeasuredReadings& r) {
  const std::uint64_t B = dimension(r.batch), T = dimension(r.seq_len), C = dimension(r.n_embd);
  const std::uint64_t NH = dimension(r.n_head), L = dimension(r.n_layer), P = dimension(r.n_positions);

  Bytes linear = 0, quadratic = 0, mask = 0;
  for (const SavedTensor& tensor : r.block) {
    const auto tokens = std::count(tensor.shape.begin(), tensor.shape.end(), r.seq_len);
    const bool batched = !tensor.shape.empty() && tensor.shape.front() == r.batch;
    Bytes& part = tokens < 2 ? linear : batched ? quadratic : mask;
    part = add(part, tensor.bytes);
  }

  MeasuredConstants c;
  c.weights = nearest(r.weights, r.parameters);
  c.optimizer_state = nearest(r.optimizer_state, r.parameters);
  c.causal_masks = nearest(r.causal_masks, product({L, P, P}));
  c.workspaces = r.workspaces;
  const Bytes known =
      add(add(product({add(c.weights, c.optimizer_state), r.parameters}), product({c.causal_masks, L, P, P})), c.workspaces);
  c.remainder = subtract(r.step_start, known);
  c.block_linear = nearest(linear, product({B, T, C}));
  c.block_quadratic = nearest(quadratic, product({B, NH, T, T}));
  c.block_mask = nearest(mask, product({T, T}));
  c.outside_blocks = nearest(r.outside_blocks, product({B, T, C}));
  c.logits = nearest(r.logits, product({B, T, dimension(r.vocab_size)}));
  c.vocabulary_tensors = nearest(subtract(subtract(r.peak, r.step_start), r.activations), r.logits);

  Bytes reserved = 0, allocated = 0;
  for (const BatchReading& run : r.sweep) {
    reserved = add(reserved, run.reserved / MiB);
    allocated = add(allocated, run.allocated / MiB);
  }
  if (allocated != 0) {
    c.reserved = reserved;
    c.allocated = allocated;
  }
  return c;
}

std::int64_t straight_line_batch(const MeasuredReadings& r) {
  if (r.batch < 1) return 0;
  return saturating::largest(r.free, r.step_start, subtract(r.peak, r.step_start) / dimension(r.batch));
}

ClosedEstimate estimate(const MeasuredConstants& c, const Config& config) {
  const std::uint64_t B = dimension(config.batch), T = dimension(config.seq_len), C = dimension(config.model.n_embd);
  const std::uint64_t NH = dimension(config.model.n_head), L = dimension(config.model.n_layer);
  const std::uint64_t V = dimension(config.model.vocab_size), P = dimension(config.model.n_positions);

  ClosedEstimate e;
  e.parameters = gpt2_parameters(config.model);
  e.notes = departures(config);
  const auto line = [&e](Bytes& part, const char* label, const char* category, std::string text, Bytes bytes) {
    e.lines.push_back({label, category, std::move(text), bytes});
    part = add(part, bytes);
    e.allocated = add(e.allocated, bytes);
  };
  line(e.fixed, "weights", "parameters", formula(c.weights, "N", 4), product({c.weights, e.parameters}));
  line(e.fixed, "optimizer state", "optimizer_state", formula(c.optimizer_state, "N", 4), product({c.optimizer_state, e.parameters}));
  line(e.fixed, "causal masks", "buffers", formula(c.causal_masks, "L·P²", 4), product({c.causal_masks, L, P, P}));
  line(e.fixed, "library workspaces", "workspaces", std::to_string(c.workspaces), c.workspaces);
  line(e.fixed, "rest of the fixed part", "rounding", std::to_string(c.remainder), c.remainder);
  line(e.blocks_linear, "blocks, linear in T", "activations", formula(c.block_linear, "L·B·T·C", 4), product({c.block_linear, L, B, T, C}));
  line(e.blocks_quadratic, "attention probabilities", "attention", formula(c.block_quadratic, "L·B·NH·T²", 4),
       product({c.block_quadratic, L, B, NH, T, T}));
  line(e.blocks_quadratic, "causal masks, compared", "attention", formula(c.block_mask, "L·T²", 1), product({c.block_mask, L, T, T}));
  line(e.outside_blocks, "embedding and final LayerNorm", "activations", formula(c.outside_blocks, "B·T·C", 4),
       product({c.outside_blocks, B, T, C}));
  line(e.vocabulary, "vocabulary-sized tensors", "logits", formula(saturating::multiply(c.vocabulary_tensors, c.logits), "B·T·V", 4),
       product({c.vocabulary_tensors, c.logits, B, T, V}));
  e.reserved = saturating::scale(e.allocated, c.reserved, c.allocated);

  // Allocated is a line in B: what a batch of none would hold, and what each sequence adds.
  const Bytes without = add(e.fixed, product({c.block_mask, L, T, T}));
  const Bytes linear = add(product({c.block_linear, L, T, C}), product({c.block_quadratic, L, NH, T, T}));
  const Bytes each = add(add(linear, product({c.outside_blocks, T, C})), product({c.vocabulary_tensors, c.logits, T, V}));
  const Bytes free = saturating::multiply(dimension(config.device.free_mib), MiB);
  e.batch_by_allocated = saturating::largest(free, without, each);
  if (c.reserved != 0) e.batch_by_reserved = saturating::largest(saturating::scale(free, c.allocated, c.reserved), without, each);
  return e;
}

}  // namespace whatfits
