// How many bytes PyTorch 2.6's CUDA kernels take beside their results: integer functions of shapes and of the card.
//
// Recorded from PyTorch 2.6.0 on a virtual device: every function gives what it asked its caching allocator for.
#pragma once

#include <cstdint>
#include <vector>

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

/// Scratch of cub's scan of n 64-bit integers: cumsum of a tensor that is one row, embedding's backward.
Bytes index_scan_scratch(std::int64_t n);

/// Scratch of the radix sort of n 64-bit index pairs in index_put_ with accumulation: next to nothing while one block sorts them all.
/// Only the bits of `largest` are looked at: the last row of what is indexed.
Bytes index_sort_scratch(std::int64_t n, std::int64_t largest, int compute_capability);

/// Scratch of torch.sort(stable=True) of one row of n 64-bit integers: none up to 4,096, which one block sorts in place.
Bytes row_sort_scratch(std::int64_t n, int compute_capability);

// ---- scaled dot product attention -------------------------------------------------------------------------------------
//
// q, k and v are [B, H, T, D] with S bytes each, by default transposed views of one [B, T, 3*H*D] tensor (memory order
// B, T, H, D). Below, + takes and - frees. Where dropout is not named it changes nothing: its seed stays on the host.
// After the lists, the backward of x.split takes one tensor of 3 * S (cat) and frees dq, dk, dv in that order.

enum class AttentionBackend { math, flash, efficient };

/// What decides which kernels take q, k, v of one length, without a mask or with is_causal.
struct AttentionCase {
  Bytes element_bytes = 4;
  bool bfloat = false;
  std::int64_t head_size = 64;
  bool training = true;  ///< q, k or v requires grad
  bool dropout = false;
};

/// Whether the fused kernels run: the checks of aten/src/ATen/native/transformers/cuda/sdp_utils.cpp. A script that allows one backend
/// only, which then does not, ends with "No available kernel". Math takes everything.
/// fp32 never takes flash; above 9.0 nothing is fused; 8.6 and 8.9 train no flash for D in 193..224, nor above 224 with dropout.
bool takes_flash(const AttentionCase& attention, int compute_capability);
bool takes_efficient(const AttentionCase& attention, int compute_capability);
/// What head sizes must be a multiple of for the memory-efficient kernel (minimum_gemm_alignment): 128 bits where tensor cores run.
std::int64_t efficient_alignment(Bytes element_bytes, int compute_capability);

/// What PyTorch picks by itself: flash before memory-efficient before math.
AttentionBackend attention_backend(const AttentionCase& attention, int compute_capability);

/// Flash attention, aten/src/ATen/native/transformers/cuda/flash_attn/flash_api.cpp.
///
/// D divisible by 8 (`padded` false):
///   forward: + S (out, in q's memory order), + logsumexp; if splits > 1: + logsumexp_parts, + output_parts, - output_parts,
///     - logsumexp_parts. Saved, and freed after backward in this order: k, q, v, logsumexp, out.
///   out.transpose(1, 2).contiguous() copies nothing if q was a transposed view.
///   backward: + S (dq), + S (dk), + S (dv), + softmax_d, + dq_accumulator, - dq_accumulator, - softmax_d, then saved: - logsumexp.
///   Before dq: one S for the incoming gradient and one S for out, each only if its memory order is not B, T, H, D (and H > 1
///   and T > 1); both are freed after softmax_d, last taken first.
/// Otherwise P = `padded_bytes`, a tensor with D rounded up to 8, and memory order B, H, T, D:
///   forward: + P (q), + P (k), + P (v), + P (out), + logsumexp, split buffers as above. All are saved; the result is a view of
///     out, and out.transpose(1, 2).contiguous() takes S.
///   backward: + P (gradient, zeros), if H > 1 and T > 1: + P (its copy c1), + P (copy c2 of out); + P (dq), + P (dk), + P (dv),
///     + softmax_d, + dq_accumulator, - dq_accumulator, - softmax_d, - c2, - c1, - gradient, - saved k, q, v, logsumexp, out (P each
///     but logsumexp), then + S (v), - dv, + S (k), - dk, + S (q), - dq; if H > 1 and T > 1, for each of v, k, q once more: + S,
///     - its former S; cat of 3 * S, frees q, k, v.
struct FlashAttention {
  bool padded = false;
  Bytes padded_bytes = 0;
  Bytes logsumexp = 0;
  int splits = 1;             ///< always 1 with dropout
  Bytes logsumexp_parts = 0;  ///< 0 if not split
  Bytes output_parts = 0;
  Bytes softmax_d = 0;
  Bytes dq_accumulator = 0;
};
FlashAttention flash_attention(std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_size, bool dropout,
                               std::int64_t multiprocessors);

/// How many pieces of the keys flash attention's forward hands to different blocks: num_splits_heuristic of flash_api.cpp, in exact
/// fractions instead of its floats (2 of 495,810 cases differ, both where efficiencies tie: 142 or 148 multiprocessors, T 2500).
int flash_splits(std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_size, std::int64_t multiprocessors);

/// Memory-efficient attention, aten/src/ATen/native/transformers/cuda/attention.cu and attention_backward.cu.
///   forward: + S (out, memory order B, T, H, D always), + logsumexp (training only), + output_accumulator, - output_accumulator
///     if not 0. Saved, and freed after backward in this order: k, q, v, logsumexp, out.
///   backward, 2-byte types: + S (dq), + S (dk), + S (dv), + delta, + workspace, - delta, - workspace, then saved: - logsumexp.
///   backward, fp32: + S (dq), + S (dk), + S (dv), + S (gradient * out), + delta; if H > 1 and T > 1: + delta (its transposed copy),
///     - first delta; - gradient * out, + workspace, - delta, - workspace, then saved: - logsumexp.
/// Where the workspace is 0 it is not taken. On 7.0, fp16 with D > 128 makes its delta like fp32, after + 2 * S and + 2 * S (fp32 copies
/// of the gradient and of out), which go with the product.
/// dq, dk and dv come in memory order B, T, H, D: leaves in another order copy them.
struct EfficientAttention {
  Bytes logsumexp = 0;
  Bytes output_accumulator = 0;  ///< fp32, for 2-byte types with D > 128
  Bytes delta = 0;
  bool delta_outside = false;  ///< by operators ahead of the kernel (kKernelComputesDelta is false)
  Bytes workspace = 0;         ///< 0 for fp32 before 7.0
};
EfficientAttention efficient_attention(std::int64_t batch, std::int64_t heads, std::int64_t tokens, std::int64_t head_size,
                                       Bytes element_bytes, bool dropout, int compute_capability);

// Math attention, _scaled_dot_product_attention_math of aten/src/ATen/native/transformers/attention.cpp, is a chain of operators;
// F = 4 * B*H*T*D, A = 4 * B*H*T*T, M = T*T bytes. With is_causal, and no dropout; (numbers) name what is freed later.
// Lines in [ ] happen only if B > 1 and H > 1 and T > 1: otherwise the views merge without a copy, and what would have been freed
// with them is saved in their place.
//
// fp32, S = F. forward:
//   + F (1: q * scale), + M (2: ones), + M (3: tril), - 2, + 4 (4), + 4 (5), + 4 * M (6: mask), - 5, - 4, - 3, + F (7: k * scale),
//   [+ F (q copy), + F (k copy)], + A (8: scores), [- 7], + A (softmax), + A / 4 (9), + B*H*T (10), + 4 (11), - 11, - 10, - 9, - 8,
//   [+ F (v copy)], + F (out, memory order B, H, T, D), [- 1], - 6.    (At T = 1, v is still copied unless B or H is 1.)
//   out.transpose(1, 2).contiguous() takes F if H > 1 and T > 1.
// backward of a gradient in memory order B, T, H, D:
//   [+ F (1)], + F (2: dv), + A (3), [- 1, - v copy], + A (4), + A (5), - 5, - 3, - softmax, + F (6: dk), + F (7: dq), - 4,
//   - saved q, - saved k, + F (8: dk * scale), - 6, + F (9: dq * scale), - 7; if H > 1 and T > 1: + F (10: dv copied), - 2,
//   + F (11: dq copied), - 9; cat of 3 * F, - dq, - dk, - dv.
// 2-byte types, S = F / 2. forward:
//   + F (1: q), + F (2: k), + F (3: v), + F (4: q * scale), mask as above (5), + F (6: k * scale), [+ F (q copy), + F (k copy)],
//   + A (7: scores), [- 6], + A (softmax), + A / 4 (8), + B*H*T (9), + 4 (10), - 10, - 9, - 8, - 7, + A / 2 (11), [+ F (v copy)],
//   + F (12), + S (out), - 12, [- 4], - 5, [- 3], - 2, - 1, - 11.
// backward: + F (1: the gradient), [+ F (2), - 1], + F (3: dv), + A (4), - 2 (- 1 where nothing was copied), - saved v, + A (5), + A (6),
//   - 6, - 4, - softmax, + F (7: dk), + F (8: dq), - 5, - saved q, - saved k, + F (9), - 7, + F (10), - 8, + S (11: dv), - 3,
//   + S (12: dk), - 9, + S (13: dq), - 10; if H > 1 and T > 1: + S (14: dv copied), - 11, + S (15: dq copied), - 13;
//   cat of 3 * S, - dq, - dk, - dv.

// ---- clipping ---------------------------------------------------------------------------------------------------------

/// clip_grad_norm_ over n gradients of one type with e bytes an element (ForeachReduceOp.cu for the norms):
///   + norm_partials, n times + e (norms), - norm_partials, + n * e (stack), + e (t: total), - stack, - norms, last first,
///   + e (a), + e (b), + e (c), - b, - a, + e (d), - c, - d; t is what it returns.
/// Gradients of several types: norms type by type, each with its partials (fp32 came before bfloat16, whatever their order).
/// With foreach=False: no partials, and each gradient is multiplied alone, without temporaries.
/// The partials are fp32 whatever the type: one for each 65,536 elements of the largest gradient, for every gradient.
Bytes norm_partials(std::int64_t gradients, std::int64_t largest_elements);

// ---- fused linear cross-entropy -----------------------------------------------------------------------------------------

/// Tokens that Liger's fused linear cross-entropy takes at a time: the power of two at or above tokens / ceil(V / C).
std::int64_t fused_loss_chunk(std::int64_t tokens, std::int64_t vocabulary, std::int64_t width);

// ---- several cards ------------------------------------------------------------------------------------------------------

/// Tables of addresses and offsets, in int64, that these operators upload before their kernel, in bytes. Source: get_chunk_cat_metadata
/// and split_with_sizes_copy_out_cuda_contiguous_no_cast of ATen/native/cuda/TensorShape.cu, and probes of sizes and cards.
/// `parts`: bytes of each tensor's part in one chunk of the destination; a thread block copies 128 x 16 bytes.
Bytes chunk_cat_metadata(const std::vector<Bytes>& parts);
/// The same for torch.split_with_sizes_copy from `chunks` rows: where there are more blocks than the card holds at once, each copies more.
Bytes split_copy_metadata(const std::vector<Bytes>& parts, std::int64_t chunks, Multiprocessors card);

}  // namespace whatfits::torch
