#include "torch/kernel_sizes.h"

namespace whatfits::torch {
namespace {

using Int = std::int64_t;

constexpr Int min(Int a, Int b) { return a < b ? a : b; }
constexpr Int max(Int a, Int b) { return a > b ? a : b; }
constexpr Int ceil_div(Int a, Int b) { return (a + b - 1) / b; }
constexpr Int floor_power_of_two(Int n) {
  Int p = 1;
  while (p * 2 <= n) p *= 2;
  return p;
}

constexpr Int threads_per_multiprocessor(int compute_capability) {
  switch (compute_capability) {
    case 75:
      return 1024;
    case 86:
    case 87:
    case 89:
      return 1536;
    default:
      return compute_capability >= 110 ? 1536 : 2048;
  }
}

// ---- sums

constexpr Int fp32_bytes = 4;
constexpr Int max_threads = 512;
constexpr Int warp = 32;
constexpr Int vector_loads = 4;

/// Each of `outputs` results sums `inputs` elements.
struct Shape {
  Int outputs;
  Int inputs;
  bool inputs_adjacent;  ///< the elements of one sum lie side by side
  bool one_dimension;    ///< a single sum over everything
};

Int output_vector(Int outputs) {
  Int vector = vector_loads;
  while (outputs % vector) vector /= 2;
  return vector;
}

ReductionLaunch reduction_launch(const Shape& shape, Multiprocessors card) {
  // A thread loads 4 neighbours at once, of one sum (only in the one-dimensional case) or of up to 4 sums.
  const Int vector = shape.inputs_adjacent ? 1 : output_vector(shape.outputs);
  Int wide = shape.inputs_adjacent ? shape.inputs : shape.outputs / vector;
  if (shape.one_dimension && wide > 128) wide /= vector_loads;
  const Int high = shape.inputs_adjacent ? shape.outputs : shape.inputs;

  // The block is as wide as its fastest dimension allows, at first up to a warp.
  const Int threads = max_threads / vector;
  const Int widest = floor_power_of_two(min(wide, threads));
  const Int highest = floor_power_of_two(min(high, threads));
  const Int height = min(highest, threads / min(widest, warp));
  const Int width = min(widest, threads / height);

  // Its rows share each sum if that leaves a thread enough to do, otherwise they serve different sums.
  const Int inputs_step = shape.inputs_adjacent ? width : 1;
  const Int outputs_step = shape.inputs_adjacent ? 1 : width;
  const Int alone = ceil_div(shape.inputs, inputs_step);
  if (alone < height * 16 && alone < 256) return {};
  const Int per_thread = ceil_div(shape.inputs, inputs_step * height);

  // Several blocks share each sum if its work is long and the card has room for more blocks.
  const Int blocks = ceil_div(shape.outputs / vector, outputs_step);
  const Int room = card.count * (threads_per_multiprocessor(card.compute_capability) / (width * height));
  if (per_thread < 256 || blocks > room) return {};
  const Int share = max(min(ceil_div(room, blocks), ceil_div(per_thread, 16)), ceil_div(per_thread, 256));
  if (share <= 1) return {};
  const Int stored = shape.outputs * share * (shape.inputs_adjacent ? 1 : width * vector);
  return {static_cast<Bytes>(fp32_bytes * stored), static_cast<Bytes>(4 * blocks)};
}

/// Launches for `shape`, halved along its longest dimension until offsets in bytes fit 31 bits, first half first.
void add_launches(Reduction& reduction, const Shape& shape, Int element_bytes, Multiprocessors card) {
  constexpr Int most = 2'147'483'647;
  const Int elements = shape.outputs * shape.inputs;
  if (1 + (elements - 1) * element_bytes <= most) {
    if (reduction.launches < Reduction::max_launches) reduction.launch[reduction.launches++] = reduction_launch(shape, card);
    return;
  }
  const bool halve_outputs = shape.inputs_adjacent && shape.outputs > 1;
  Shape first = shape;
  Shape second = shape;
  Int Shape::* const halved = halve_outputs ? &Shape::outputs : &Shape::inputs;
  first.*halved = shape.*halved / 2;
  second.*halved = shape.*halved - first.*halved;
  add_launches(reduction, first, element_bytes, card);
  add_launches(reduction, second, element_bytes, card);
}

Reduction reduce(const Shape& shape, Bytes element_bytes, Multiprocessors card) {
  Reduction reduction;
  add_launches(reduction, shape, static_cast<Int>(element_bytes), card);
  if (reduction.launches > 1 && element_bytes < fp32_bytes) reduction.carry = static_cast<Bytes>(fp32_bytes * shape.outputs);
  return reduction;
}

// ---- embedding

/// cub lays its arrays out in one allocation: each rounded up to 256 bytes, and room to align the first.
constexpr Bytes cub_round(Int bytes) { return round_up(static_cast<Bytes>(bytes), 256); }
constexpr Bytes cub_slack = 255;

/// Items per block of the onesweep radix sort, by the policy that cub picks for 8-byte keys with 8-byte values.
constexpr Int sort_tile(int compute_capability) {
  if (compute_capability >= 90) return 4608;
  return compute_capability >= 80 ? 3840 : 2816;
}

constexpr Int all_bits = 64;

Bytes sort_scratch(Int n, Int bits, int compute_capability) {
  constexpr Int digits = 256;
  const Int passes = ceil_div(bits, 8);
  const Int tile = sort_tile(compute_capability);
  const Int portion = ((Int{1} << 28) - 1) / tile * tile;
  const Int portions = ceil_div(n, portion);
  const Int blocks = ceil_div(min(n, portion), tile);
  return cub_round(portions * passes * digits * 8) + cub_round(blocks * digits * 4) + 2 * cub_round(n * 8) +
         cub_round(portions * passes * 4) + cub_slack;
}

/// States of the blocks that look back at their predecessors, a warp's worth more than there are blocks.
Bytes look_back_scratch(Int n, Int tile, Int state_bytes) { return cub_round((ceil_div(n, tile) + warp) * state_bytes) + cub_slack; }

// ---- attention

/// The block of the kernel that computes memory-efficient attention's gradient.
struct EfficientTile {
  Int queries;
  Int keys;
  bool accumulates_keys;  ///< dk and dv do not fit in registers and are summed in the workspace
};

/// The first kernel of cutlassB.h that takes this head size and whose shared memory the card has.
EfficientTile efficient_tile(Int head_size, bool half, bool dropout, int compute_capability) {
  const bool little_shared_memory = compute_capability == 86 || compute_capability == 89;
  if (compute_capability < 70) return {64, 64, half && head_size > 64};
  if (head_size <= 64) return {64, 64, false};
  if (!half) return compute_capability >= 80 && !little_shared_memory ? EfficientTile{128, 64, false} : EfficientTile{64, 64, false};
  if (head_size > 128) return {128, 64, true};
  if (compute_capability < 80) return {128, 64, false};
  if (!little_shared_memory) return {128, 128, false};
  return head_size <= 96 && !dropout ? EfficientTile{128, 64, false} : EfficientTile{64, 64, true};
}

}  // namespace

Reduction column_sum(std::int64_t rows, std::int64_t cols, Bytes element_bytes, Multiprocessors card) {
  if (cols == 1) return full_sum(rows, element_bytes, card);
  return reduce({cols, rows, false, false}, element_bytes, card);
}

Reduction row_sum(std::int64_t rows, std::int64_t cols, Bytes element_bytes, Multiprocessors card) {
  if (rows == 1) return full_sum(cols, element_bytes, card);
  return reduce({rows, cols, true, false}, element_bytes, card);
}

Reduction full_sum(std::int64_t n, Bytes element_bytes, Multiprocessors card) { return reduce({1, n, true, true}, element_bytes, card); }

EmbeddingBackward embedding_backward(std::int64_t n, std::int64_t table_rows, std::int64_t cols, Bytes element_bytes,
                                     int compute_capability) {
  constexpr Int sorting_threshold = 3072;
  constexpr Int rows_per_partial = 10;
  EmbeddingBackward sizes;
  sizes.table_gradient = static_cast<Bytes>(table_rows * cols) * element_bytes;
  sizes.sorted = n > sorting_threshold;
  if (!sizes.sorted) return sizes;
  const Int segments = min(n, table_rows);
  const Int partials = n / rows_per_partial + segments;
  sizes.indices_bytes = static_cast<Bytes>(8 * n);
  sizes.sort_scratch = sort_scratch(n, all_bits, compute_capability);
  sizes.unique_scratch = look_back_scratch(n, compute_capability >= 90 ? 4480 : 320, 8);
  sizes.segment_bytes = static_cast<Bytes>(8 * segments);
  sizes.scan_scratch = index_scan_scratch(segments);
  sizes.partial_offsets = static_cast<Bytes>(8 * partials);
  sizes.partial_sums = static_cast<Bytes>(fp32_bytes * partials * cols);
  return sizes;
}

Bytes index_scan_scratch(std::int64_t n) { return look_back_scratch(n, 896, 16); }

Bytes index_sort_scratch(std::int64_t n, std::int64_t largest, int compute_capability) {
  if (n <= sort_tile(compute_capability)) return 1;
  Int bits = 1;
  for (Int rest = largest / 2; rest > 0; rest /= 2) ++bits;
  return sort_scratch(n, bits, compute_capability);
}

Bytes row_sort_scratch(std::int64_t n, int compute_capability) {
  constexpr Int sorted_in_place = 4096;
  if (n <= sorted_in_place) return 0;
  return n <= sort_tile(compute_capability) ? Bytes{1} : sort_scratch(n, all_bits, compute_capability);
}

bool takes_flash(const AttentionCase& attention, int compute_capability) {
  const Int head_size = attention.head_size;
  if (attention.element_bytes != 2 || compute_capability < 80 || compute_capability > 90 || head_size > 256) return false;
  const bool limited = attention.training && (compute_capability == 86 || compute_capability == 89);
  return !limited || head_size <= 192 || (head_size > 224 && !attention.dropout);
}

std::int64_t efficient_alignment(Bytes element_bytes, int compute_capability) {
  if (element_bytes == 2) return compute_capability >= 70 ? 8 : 1;
  return compute_capability >= 80 ? 4 : 1;
}

bool takes_efficient(const AttentionCase& attention, int compute_capability) {
  if (compute_capability < 50 || compute_capability > 90) return false;
  if (attention.bfloat && compute_capability < 80) return false;
  return attention.head_size % efficient_alignment(attention.element_bytes, compute_capability) == 0;
}

AttentionBackend attention_backend(const AttentionCase& attention, int compute_capability) {
  if (takes_flash(attention, compute_capability)) return AttentionBackend::flash;
  return takes_efficient(attention, compute_capability) ? AttentionBackend::efficient : AttentionBackend::math;
}

int flash_splits(std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_size, std::int64_t multiprocessors) {
  const Int places = 2 * multiprocessors;
  const Int work = batch * heads * ceil_div(tokens, 64);
  if (5 * work >= 4 * places) return 1;
  const Int key_blocks = ceil_div(tokens, head_size <= 64 ? 256 : head_size <= 128 ? 128 : 64);
  const Int most = min(min(128, places), key_blocks);
  // Efficiency: the filled share of the places over whole waves, as the fraction work * n / (places * waves).
  const auto eligible = [&](Int n) { return n == 1 || ceil_div(key_blocks, n) != ceil_div(key_blocks, n - 1); };
  const auto waves = [&](Int n) { return ceil_div(work * n, places); };
  Int best = 1;
  for (Int n = 2; n <= most; ++n)
    if (eligible(n) && n * waves(best) > best * waves(n)) best = n;
  // The fewest pieces that are at least 85 % as efficient as the best.
  for (Int n = 1; n <= most; ++n)
    if (eligible(n) && 100 * n * waves(best) >= 85 * best * waves(n)) return static_cast<int>(n);
  return 1;
}

FlashAttention flash_attention(std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_size, bool dropout,
                               std::int64_t multiprocessors) {
  const auto padded_size = static_cast<Int>(round_up(static_cast<Bytes>(head_size), 8));
  const auto wide_size = static_cast<Int>(round_up(static_cast<Bytes>(head_size), 32));
  const auto long_tokens = static_cast<Int>(round_up(static_cast<Bytes>(tokens), 128));
  const Int rows = batch * heads * tokens;
  FlashAttention sizes;
  sizes.padded = padded_size != head_size;
  sizes.padded_bytes = static_cast<Bytes>(2 * rows * padded_size);
  sizes.logsumexp = static_cast<Bytes>(fp32_bytes * rows);
  sizes.splits = dropout ? 1 : flash_splits(batch, heads, tokens, padded_size, multiprocessors);
  if (sizes.splits > 1) {
    sizes.logsumexp_parts = static_cast<Bytes>(fp32_bytes * sizes.splits * rows);
    sizes.output_parts = static_cast<Bytes>(fp32_bytes * sizes.splits * rows * wide_size);
  }
  sizes.softmax_d = static_cast<Bytes>(fp32_bytes * batch * heads * long_tokens);
  sizes.dq_accumulator = sizes.softmax_d * static_cast<Bytes>(wide_size);
  return sizes;
}

EfficientAttention efficient_attention(std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_size,
                                       Bytes element_bytes, bool dropout, int compute_capability) {
  constexpr Int most_key_pieces = 200;
  constexpr Int lock_bytes = 16;
  const bool half = element_bytes == 2;
  const Int sequences = batch * heads;
  const EfficientTile tile = efficient_tile(head_size, half, dropout, compute_capability);

  // Before 7.0 one block walks all keys (kEnableSplitKeys), and an fp32 dq is its own sum.
  const bool splits_keys = compute_capability >= 70;

  // Each block of dq is summed behind a lock; dk and dv only where registers do not hold them.
  const Int dq_tiles = ceil_div(tokens, tile.queries) * ceil_div(head_size, tile.keys);
  Int workspace = !half && !splits_keys ? 0 : dq_tiles * (fp32_bytes * tile.queries * tile.keys + lock_bytes);
  if (tile.accumulates_keys) {
    const Int pieces = !splits_keys ? 1 : max(1, min(ceil_div(tokens, tile.keys), most_key_pieces / sequences));
    workspace += 2 * pieces * fp32_bytes * tile.keys * ceil_div(head_size, tile.queries) * tile.queries;
  }
  EfficientAttention sizes;
  sizes.logsumexp = static_cast<Bytes>(fp32_bytes * sequences) * round_up(static_cast<Bytes>(tokens), 32);
  if (half && head_size > 128) sizes.output_accumulator = static_cast<Bytes>(fp32_bytes * sequences * tokens * head_size);
  sizes.delta = static_cast<Bytes>(fp32_bytes * sequences * tokens);
  const bool volta = compute_capability >= 70 && compute_capability < 75;
  sizes.delta_outside = !half || (volta && head_size > 128);
  sizes.workspace = static_cast<Bytes>(sequences * workspace);
  return sizes;
}

Bytes norm_partials(std::int64_t gradients, std::int64_t largest_elements) {
  constexpr Int chunk = 65536;
  return static_cast<Bytes>(fp32_bytes * gradients * ceil_div(largest_elements, chunk));
}

// ---- copies of many tensors at once

namespace {

constexpr Int block_bytes = 128 * 16;  // threads of a block, bytes of a thread

Int blocks_of(const std::vector<Bytes>& parts, Int bytes) {
  Int blocks = 0;
  for (const Bytes part : parts) blocks += ceil_div(static_cast<Int>(part), bytes);
  return blocks;
}

}  // namespace

Bytes chunk_cat_metadata(const std::vector<Bytes>& parts) {
  const Int n = static_cast<Int>(parts.size());
  return static_cast<Bytes>(8 * (6 * n + 2 + blocks_of(parts, block_bytes)));
}

Bytes split_copy_metadata(const std::vector<Bytes>& parts, Int chunks, Multiprocessors card) {
  const Int n = static_cast<Int>(parts.size());
  // Twice as many blocks as the card holds at once are aimed at; the rest is spread evenly over chunks and over a block's iterations.
  const Int most = 2 * card.count * (threads_per_multiprocessor(card.compute_capability) / 128);
  const Int factor = ceil_div(blocks_of(parts, block_bytes) * chunks, most);
  Int root = 1;
  while (root * root < factor) ++root;
  const Int iterations = ceil_div(factor, min(root, chunks));
  return static_cast<Bytes>(8 * (4 * n + 1 + blocks_of(parts, block_bytes * iterations)));
}

}  // namespace whatfits::torch
