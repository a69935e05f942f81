// How many bytes PyTorch 2.6's CUDA kernels take beside their results: integer functions of shapes and of the card.
//
// Recorded from PyTorch 2.6.0 on a virtual device: every function gives what it asked its caching allocator for.
#pragma once

#include <cstdint>

#include "whatfits/bytes.h"

namespace whatfits::torch {

/// What two launch heuristics look at. Compute capability is major * 10 + minor.
struct Multiprocessors {
  std::int64_t count = 84;
  int compute_capability = 86;
};

// ---- sums -----------------------------------------------------------------------------------------------------------

/// Buffers of one launch of the reduction kernel, taken in this order after the output and freed in reverse order
/// (semaphores, then accumulator) before the next launch. Both are 0 when each output is summed by one block.
struct ReductionLaunch {
  Bytes accumulator = 0;
  Bytes semaphores = 0;
};

/// A sum in order: output, `carry` if not 0, then each launch's buffers, at last the carry is freed.
struct Reduction {
  static constexpr int max_launches = 256;
  /// fp32 partial results that outlive the launches: only when the input passes 2 GiB and the output is 16 bits wide.
  Bytes carry = 0;
  /// One, or one for each piece of an input that 32-bit offsets cannot address.
  int launches = 0;
  ReductionLaunch launch[max_launches];
};

/// The sum of a contiguous [rows, cols] tensor over its rows: bias gradients, gradients of a broadcast weight ([B*T, C])
/// or position table ([B, T*C]). Restates setReduceConfig of aten/src/ATen/native/cuda/Reduce.cuh; the accumulator is
/// fp32 for 4- and 2-byte elements alike, and the input is taken to start at a multiple of 16 bytes.
Reduction column_sum(std::int64_t rows, std::int64_t cols, Bytes element_bytes, Multiprocessors card);

/// The sum (or mean) of a contiguous [rows, cols] tensor over its last dimension. Same source.
Reduction row_sum(std::int64_t rows, std::int64_t cols, Bytes element_bytes, Multiprocessors card);

/// The sum (or mean, or 2-norm) of all n elements of a contiguous tensor. Same source.
Reduction full_sum(std::int64_t n, Bytes element_bytes, Multiprocessors card);

// ---- embedding ------------------------------------------------------------------------------------------------------

/// The gradient of a [table_rows, cols] embedding from n int64 indices: embedding_dense_backward_cuda of
/// aten/src/ATen/native/cuda/Embedding.cu, embedding_backward_cuda_kernel of EmbeddingBackwardKernel.cu, and the scratch
/// of cub's onesweep radix sort of 64-bit pairs, unique-by-key and exclusive scan.
///
/// Up to 3,072 indices (`sorted` false): table_gradient alone. Otherwise, + takes and - frees:
///   + indices_bytes (sorted), + indices_bytes (order), + indices_bytes (arange), + sort_scratch, - sort_scratch, - arange,
///   + table_gradient (stays),
///   + indices_bytes (segment starts), + 8 (a), + indices_bytes (keys), + unique_scratch, - unique_scratch, - keys,
///   + segment_bytes (b), + segment_bytes (c), + scan_scratch, - scan_scratch, + 8 (d), + partial_offsets, + partial_sums,
///   - partial_sums, - partial_offsets, - d, - c, - b, - a, - segment starts, - order, - sorted.
/// A gradient that is not contiguous is copied first and that copy freed last. Nothing depends on the index values.
struct EmbeddingBackward {
  bool sorted = false;
  Bytes table_gradient = 0;  ///< in the table's type
  Bytes indices_bytes = 0;
  Bytes sort_scratch = 0;
  Bytes unique_scratch = 0;
  Bytes segment_bytes = 0;
  Bytes scan_scratch = 0;
  Bytes partial_offsets = 0;
  Bytes partial_sums = 0;  ///< fp32, whatever the table's type
};
EmbeddingBackward embedding_backward(std::int64_t n, std::int64_t table_rows, std::int64_t cols, Bytes element_bytes,
                                     int compute_capability);

}  // namespace whatfits::torch
