// Two closed forms, shown beside the replay and never mixed into it: straight arithmetic on the config's dimensions.
// The general account counts saved tensors from first principles; the measured calculator scales one measured run.
// Formulas use B, T (batch, tokens), C (n_embd), NH (heads), L (layers), V (vocabulary), P (n_positions), N (parameters);
// where a formula names an element's size in bytes it comes last. Results saturate at 2^64 - 1 instead of wrapping.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "whatfits/bytes.h"
#include "whatfits/config.h"

namespace whatfits {

/// One line of an account. `category` is a key of the report's categories; lines of one account never overlap.
struct ClosedLine {
  std::string label;     ///< what it is, for people
  std::string category;  ///< parameters, gradients, optimizer_state, buffers, workspaces, activations, attention, logits, rounding
  std::string formula;   ///< "16·L·B·T·C·4"
  Bytes bytes = 0;
};

/// The general account: weights, gradients and optimizer state by the parameter, activations by shape.
/// Source: fixtures/published/general-account.json. Working space of operators and allocators is not in it.
struct GeneralAccount {
  std::uint64_t parameters = 0;    ///< N
  std::string parameters_formula;  ///< "2·V·C + 12·L·C²", or "given"
  std::uint64_t batch = 0;         ///< B of the account
  Bytes bytes_per_activation = 0;  ///< s: 4 in fp32, else 2
  std::vector<ClosedLine> lines;   ///< weights, gradients, master weights, optimizer state, then the four of the activations
  Bytes state = 0;                 ///< the lines that grow with N alone
  Bytes activations = 0;           ///< the lines that grow with B
  Bytes total = 0;                 ///< state + activations
  std::vector<std::string> notes;  ///< what the config asks for and this account leaves out; empty for its own setting
};

/// The account of a validated config. `parameters` replaces the standard count (a nominal size such as 7e9); 0 keeps it.
GeneralAccount general_account(const Config& config, std::uint64_t parameters = 0);

/// The largest batch whose total is at most `free`; 0 if not even one sequence fits.
std::int64_t largest_batch(const GeneralAccount& account, Bytes free);

/// A tensor that the measured block saves for backward, as the article lists it.
struct SavedTensor {
  std::string label;
  std::int64_t count = 1;  ///< tensors of this shape
  std::vector<std::int64_t> shape;
  Bytes element = 0;  ///< bytes of one element
  Bytes bytes = 0;    ///< of all `count`, as printed
};

/// Peaks of one whole run of the article's batch sweep, bytes as printed (whole MiB).
struct BatchReading {
  std::int64_t batch = 0;
  Bytes allocated = 0;
  Bytes reserved = 0;
};

/// What the measured article read off one card, in bytes: printed value times printed unit.
struct MeasuredReadings {
  std::int64_t vocab_size = 0;
  std::int64_t n_positions = 0;
  std::int64_t n_embd = 0;
  std::int64_t n_head = 0;
  std::int64_t n_layer = 0;
  std::uint64_t parameters = 0;
  std::int64_t batch = 0;  ///< of everything below but `sweep`
  std::int64_t seq_len = 0;
  Bytes weights = 0;  ///< by the article's arithmetic, like `optimizer_state` and `causal_masks`
  Bytes optimizer_state = 0;
  Bytes causal_masks = 0;           ///< persistent fp32 buffers, [P, P] in each block
  Bytes workspaces = 0;             ///< persistent, outside the tensors: cuBLAS
  Bytes step_start = 0;             ///< level at the start of step 2
  std::vector<SavedTensor> block;   ///< one block's lines
  Bytes outside_blocks = 0;         ///< embedding output and final LayerNorm
  Bytes activations = 0;            ///< measured: all blocks and what is outside them
  Bytes logits = 0;                 ///< exact: the request that set the peak, one vocabulary-sized tensor
  Bytes peak = 0;                   ///< of step 2, allocated
  Bytes free = 0;                   ///< of the card, before the run
  std::vector<BatchReading> sweep;  ///< the batches that ran, ascending
};

/// The readings of fixtures/published/gpt2-a40.json: GPT-2 small from scratch, fp32, AdamW, one A40, PyTorch 2.5.1.
MeasuredReadings published_readings();

/// What one measured run says about others. Bytes per unit of the product that each field names.
struct MeasuredConstants {
  Bytes weights = 0;                     ///< per N
  Bytes optimizer_state = 0;             ///< per N
  Bytes causal_masks = 0;                ///< per L·P²
  Bytes workspaces = 0;                  ///< whatever the dimensions
  Bytes remainder = 0;                   ///< rest of the fixed part, whatever the dimensions: allocator rounding and half a printed MiB
  Bytes block_linear = 0;                ///< per L·B·T·C
  Bytes block_quadratic = 0;             ///< per L·B·NH·T²
  Bytes block_mask = 0;                  ///< per L·T²: the comparison that no sequence adds to
  Bytes outside_blocks = 0;              ///< per B·T·C
  std::uint64_t vocabulary_tensors = 0;  ///< alive at once in the backward of the loss
  Bytes logits = 0;                      ///< per B·T·V
  Bytes reserved = 0;                    ///< reserved / allocated, over the sweep: MiB of all peaks
  Bytes allocated = 1;
};

/// The constants that the readings imply: each is a reading over its product of dimensions, to the nearest integer.
/// A block's lines are told apart by how often T occurs in their shapes and by whether B does.
MeasuredConstants derive(const MeasuredReadings& readings);

/// floor((free - fixed) / (per sequence)), the per-sequence share taken from the measured peak: the article's straight line.
std::int64_t straight_line_batch(const MeasuredReadings& readings);

/// What the measured calculator says of a config. It holds for what was measured: GPT-2 from scratch, fp32, explicit
/// attention, AdamW, peak in the backward of the loss. `notes` names each departure from that; the figures ignore them.
struct ClosedEstimate {
  std::uint64_t parameters = 0;   ///< N of GPT-2 with a tied head: (V + P)·C + L·(12·C² + 13·C) + 2·C
  std::vector<ClosedLine> lines;  ///< they sum to `allocated`
  Bytes fixed = 0;                ///< weights, optimizer state, masks, workspaces, remainder
  Bytes blocks_linear = 0;        ///< grows with B·T
  Bytes blocks_quadratic = 0;     ///< grows with B·T², and the masks compared, which grow with T²
  Bytes outside_blocks = 0;
  Bytes vocabulary = 0;
  Bytes allocated = 0;                  ///< peak
  Bytes reserved = 0;                   ///< peak, by the sweep's ratio: a heuristic, not the allocator
  std::int64_t batch_by_allocated = 0;  ///< largest batch on the config's device whose allocated peak is at most free_mib
  std::int64_t batch_by_reserved = 0;   ///< the same for reserved
  std::vector<std::string> notes;
};

/// The estimate for a validated config.
ClosedEstimate estimate(const MeasuredConstants& constants, const Config& config);

}  // namespace whatfits
