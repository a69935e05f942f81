// What PyTorch's kernels take, against what it took.
//
// Recorded from PyTorch 2.6.0 on a virtual device (compute capability and multiprocessors in the table), one operator at a
// time, as the requests in torch.cuda.memory._snapshot()'s trace. Thousands more cases of each kind agreed; these are a sample
// with the corners in it.
#include "torch/kernel_sizes.h"

#include <catch2/catch_test_macros.hpp>

using namespace whatfits;
using namespace whatfits::torch;

namespace {

enum class Over { rows, cols, all };

struct SumCase {
  Over over;
  std::int64_t rows, cols;
  Bytes element_bytes;
  std::int64_t multiprocessors;
  int compute_capability;
  Bytes carry;
  int staged;  ///< launches with buffers
  Bytes first_accumulator, first_semaphores, last_accumulator;
};

constexpr SumCase sums[] = {
    // clang-format off
    {Over::rows, 1000000, 1, 4, 84, 86, 0, 1, 492, 4, 492},
    {Over::rows, 100000, 3, 4, 84, 86, 0, 1, 600, 8, 600},
    {Over::rows, 100000, 5, 4, 84, 86, 0, 1, 3920, 8, 3920},
    {Over::rows, 100000, 8, 4, 84, 86, 0, 1, 25088, 4, 25088},
    {Over::rows, 7026382, 9, 2, 84, 86, 0, 1, 123552, 8, 123552},
    {Over::rows, 1614154, 62, 2, 84, 86, 0, 1, 3134720, 8, 3134720},
    {Over::rows, 255, 64, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::rows, 256, 64, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::rows, 1000000, 65, 4, 84, 86, 0, 1, 2038400, 12, 2038400},
    {Over::rows, 210201, 143, 4, 84, 86, 0, 1, 951808, 20, 951808},
    {Over::rows, 49390, 166, 2, 84, 86, 0, 1, 7139328, 12, 7139328},
    {Over::rows, 511, 200, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::rows, 16384, 200, 4, 84, 86, 0, 1, 26214400, 8, 26214400},
    {Over::rows, 16455518, 343, 4, 84, 86, 0, 16, 11063808, 44, 11063808},
    {Over::rows, 16455518, 343, 2, 84, 86, 1372, 8, 22083712, 44, 22083712},
    {Over::rows, 58143, 375, 2, 84, 86, 0, 1, 1008000, 48, 1008000},
    {Over::rows, 3072, 600, 4, 84, 86, 0, 1, 14745600, 20, 14745600},
    {Over::rows, 512, 768, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::rows, 8192, 768, 4, 84, 86, 0, 1, 50331648, 24, 50331648},
    {Over::rows, 7000, 770, 4, 84, 86, 0, 1, 7687680, 52, 7687680},
    {Over::rows, 7000, 771, 4, 84, 86, 0, 1, 1085568, 100, 1085568},
    {Over::rows, 7000, 771, 2, 84, 86, 0, 1, 1085568, 100, 1085568},
    {Over::rows, 2048, 2304, 4, 84, 86, 0, 1, 37748736, 72, 37748736},
    {Over::rows, 8192, 2304, 4, 84, 86, 0, 1, 66060288, 72, 66060288},
    {Over::rows, 8192, 3072, 4, 84, 86, 0, 1, 66060288, 96, 66060288},
    {Over::rows, 4096, 6400, 4, 84, 86, 0, 1, 68812800, 200, 68812800},
    {Over::rows, 8192, 50257, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::rows, 100, 786432, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::rows, 1000, 786432, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::rows, 1000, 786432, 2, 84, 86, 0, 0, 0, 0, 0},
    {Over::cols, 8192, 768, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::cols, 3, 50257, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::cols, 7, 786432, 4, 84, 86, 0, 1, 1008, 28, 1008},
    {Over::cols, 255, 786432, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::cols, 1, 786434, 2, 84, 86, 0, 1, 388, 4, 388},
    {Over::cols, 3, 786434, 4, 84, 86, 0, 1, 1008, 12, 1008},
    {Over::cols, 100, 786434, 4, 84, 86, 0, 1, 2800, 400, 2800},
    {Over::all, 100, 1, 4, 84, 86, 0, 0, 0, 0, 0},
    {Over::all, 164559, 1, 2, 84, 86, 0, 1, 84, 4, 84},
    {Over::all, 25781841, 1, 2, 84, 86, 0, 1, 1008, 4, 1008},
    {Over::all, 66816900, 1, 4, 84, 86, 0, 1, 2040, 4, 2040},
    {Over::rows, 1000000, 1, 4, 40, 75, 0, 1, 320, 4, 320},
    {Over::rows, 100000, 3, 4, 40, 75, 0, 1, 600, 8, 600},
    {Over::rows, 63544, 4, 4, 40, 75, 0, 1, 2048, 4, 2048},
    {Over::rows, 100000, 5, 4, 40, 75, 0, 1, 3200, 8, 3200},
    {Over::rows, 507983, 5, 2, 40, 75, 0, 1, 3200, 8, 3200},
    {Over::rows, 65537, 6, 4, 40, 75, 0, 1, 3168, 8, 3168},
    {Over::rows, 100000, 8, 4, 40, 75, 0, 1, 25088, 4, 25088},
    {Over::rows, 39838, 36, 4, 40, 75, 0, 1, 718848, 8, 718848},
    {Over::rows, 255, 64, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::rows, 256, 64, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::rows, 1000000, 65, 4, 40, 75, 0, 1, 2038400, 12, 2038400},
    {Over::rows, 7721, 85, 4, 40, 75, 0, 1, 293760, 12, 293760},
    {Over::rows, 1696, 128, 2, 40, 75, 0, 1, 1769472, 4, 1769472},
    {Over::rows, 511, 200, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::rows, 16384, 200, 4, 40, 75, 0, 1, 16384000, 8, 16384000},
    {Over::rows, 16455518, 343, 4, 40, 75, 0, 16, 11063808, 44, 11063808},
    {Over::rows, 16455518, 343, 2, 40, 75, 1372, 8, 22083712, 44, 22083712},
    {Over::rows, 3072, 600, 4, 40, 75, 0, 1, 14745600, 20, 14745600},
    {Over::rows, 512, 768, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::rows, 8192, 768, 4, 40, 75, 0, 1, 21233664, 24, 21233664},
    {Over::rows, 7000, 770, 4, 40, 75, 0, 1, 2562560, 52, 2562560},
    {Over::rows, 7000, 771, 4, 40, 75, 0, 1, 394752, 100, 394752},
    {Over::rows, 7000, 771, 2, 40, 75, 0, 1, 394752, 100, 394752},
    {Over::rows, 8192, 2304, 4, 40, 75, 0, 1, 21233664, 72, 21233664},
    {Over::rows, 8192, 3072, 4, 40, 75, 0, 1, 22020096, 96, 22020096},
    {Over::rows, 4096, 6400, 4, 40, 75, 0, 1, 22937600, 200, 22937600},
    {Over::rows, 8192, 50257, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::rows, 100, 786432, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::rows, 1000, 786432, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::rows, 1000, 786432, 2, 40, 75, 0, 0, 0, 0, 0},
    {Over::cols, 8192, 768, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::cols, 3, 50257, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::cols, 7, 786432, 4, 40, 75, 0, 1, 336, 28, 336},
    {Over::cols, 255, 786432, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::cols, 3, 786434, 2, 40, 75, 0, 1, 324, 12, 324},
    {Over::cols, 15, 786434, 4, 40, 75, 0, 1, 420, 60, 420},
    {Over::cols, 31, 786434, 2, 40, 75, 0, 1, 868, 124, 868},
    {Over::all, 100, 1, 4, 40, 75, 0, 0, 0, 0, 0},
    {Over::all, 13711962, 1, 4, 40, 75, 0, 1, 420, 4, 420},
    {Over::all, 199869462, 1, 4, 40, 75, 0, 1, 6100, 4, 6100},
    {Over::all, 201327104, 1, 2, 40, 75, 0, 1, 6148, 4, 6148},
    {Over::rows, 1000000, 1, 4, 132, 90, 0, 1, 492, 4, 492},
    {Over::rows, 100000, 3, 4, 132, 90, 0, 1, 600, 8, 600},
    {Over::rows, 100000, 5, 4, 132, 90, 0, 1, 3920, 8, 3920},
    {Over::rows, 100000, 8, 4, 132, 90, 0, 1, 25088, 4, 25088},
    {Over::rows, 1000000, 16, 2, 132, 90, 0, 1, 2000896, 4, 2000896},
    {Over::rows, 8685, 44, 2, 132, 90, 0, 1, 191488, 8, 191488},
    {Over::rows, 255, 64, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::rows, 256, 64, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::rows, 1000000, 65, 4, 132, 90, 0, 1, 2038400, 12, 2038400},
    {Over::rows, 8263, 69, 4, 132, 90, 0, 1, 291456, 12, 291456},
    {Over::rows, 511, 200, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::rows, 16384, 200, 4, 132, 90, 0, 1, 26214400, 8, 26214400},
    {Over::rows, 16455518, 343, 4, 132, 90, 0, 16, 11063808, 44, 11063808},
    {Over::rows, 16455518, 343, 2, 132, 90, 1372, 8, 22083712, 44, 22083712},
    {Over::rows, 1024, 384, 2, 132, 90, 0, 1, 3145728, 12, 3145728},
    {Over::rows, 3072, 600, 4, 132, 90, 0, 1, 14745600, 20, 14745600},
    {Over::rows, 512, 768, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::rows, 8192, 768, 4, 132, 90, 0, 1, 50331648, 24, 50331648},
    {Over::rows, 7000, 770, 4, 132, 90, 0, 1, 10841600, 52, 10841600},
    {Over::rows, 7000, 771, 4, 132, 90, 0, 1, 2171136, 100, 2171136},
    {Over::rows, 7000, 771, 2, 132, 90, 0, 1, 2171136, 100, 2171136},
    {Over::rows, 8192, 2304, 4, 132, 90, 0, 1, 139198464, 72, 139198464},
    {Over::rows, 10436, 2424, 4, 132, 90, 0, 1, 139001856, 76, 139001856},
    {Over::rows, 8192, 3072, 4, 132, 90, 0, 1, 138412032, 96, 138412032},
    {Over::rows, 1024, 4608, 2, 132, 90, 0, 1, 37748736, 144, 37748736},
    {Over::rows, 4096, 6400, 4, 132, 90, 0, 1, 140902400, 200, 140902400},
    {Over::rows, 8192, 50257, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::rows, 100, 786432, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::rows, 1000, 786432, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::rows, 1000, 786432, 2, 132, 90, 0, 0, 0, 0, 0},
    {Over::cols, 8192, 768, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::cols, 3, 50257, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::cols, 7, 786432, 4, 132, 90, 0, 1, 2128, 28, 2128},
    {Over::cols, 32, 786432, 4, 132, 90, 0, 1, 2176, 128, 2176},
    {Over::cols, 255, 786432, 4, 132, 90, 0, 1, 6120, 1020, 6120},
    {Over::cols, 16, 786434, 4, 132, 90, 0, 1, 2112, 64, 2112},
    {Over::cols, 31, 786434, 2, 132, 90, 0, 1, 2232, 124, 2232},
    {Over::all, 100, 1, 4, 132, 90, 0, 0, 0, 0, 0},
    {Over::all, 480070, 1, 4, 132, 90, 0, 1, 236, 4, 236},
    {Over::all, 1064960, 1, 4, 132, 90, 0, 1, 520, 4, 520},
    {Over::all, 25296864, 1, 2, 132, 90, 0, 1, 2112, 4, 2112},
    // clang-format on
};

struct EmbeddingCase {
  std::int64_t n, table_rows;
  int compute_capability;
  Bytes sort_scratch, unique_scratch, scan_scratch;
};

constexpr EmbeddingCase embeddings[] = {
    // clang-format off
    {31735, 3000000, 86, 534015, 1535, 1535},
    {2259606, 65, 86, 36773887, 57087, 1023},
    {32546, 50257, 86, 547327, 1535, 1535},
    {29353, 10007, 86, 495103, 1279, 1023},
    {31425, 10007, 86, 529407, 1535, 1023},
    {729267, 65, 86, 11879935, 18943, 1023},
    {3073, 65, 86, 67583, 767, 1023},
    {2999420, 200000, 86, 48808447, 75519, 4351},
    {60353, 3000000, 75, 1005567, 2047, 2047},
    {6273, 50257, 75, 120831, 767, 1023},
    {503872, 65, 75, 8262143, 13311, 1023},
    {1017009, 65, 75, 16659967, 26111, 1023},
    {26945, 65, 75, 458751, 1279, 1023},
    {24117, 50257, 75, 412159, 1279, 1279},
    {3073, 65, 75, 68607, 767, 1023},
    {2999420, 200000, 75, 49099263, 75519, 4351},
    {42625, 65, 90, 709631, 767, 1023},
    {12667, 29999, 90, 222719, 767, 1023},
    {200921, 29999, 90, 3276799, 1023, 1535},
    {61697, 65, 90, 1018879, 767, 1023},
    {2877031, 131072, 90, 46689791, 5887, 3327},
    {2727170, 131072, 90, 44258303, 5631, 3327},
    {3073, 65, 90, 67583, 767, 1023},
    {2999420, 200000, 90, 48674303, 5887, 4351},
    {3580, 32000, 80, 75263, 767, 1023},
    {2824043, 10007, 80, 45955583, 71167, 1023},
    {266813, 131072, 80, 4357631, 7423, 3327},
    {12777, 200000, 80, 225791, 1023, 1023},
    {66177, 29999, 80, 1094655, 2303, 1535},
    {447501, 131072, 80, 7297023, 11775, 3327},
    {3073, 65, 80, 67583, 767, 1023},
    {2999420, 200000, 80, 48808447, 75519, 4351},
    // clang-format on
};

Reduction sum(const SumCase& c) {
  const Multiprocessors card{c.multiprocessors, c.compute_capability};
  switch (c.over) {
    case Over::rows:
      return column_sum(c.rows, c.cols, c.element_bytes, card);
    case Over::cols:
      return row_sum(c.rows, c.cols, c.element_bytes, card);
    default:
      return full_sum(c.rows * c.cols, c.element_bytes, card);
  }
}

}  // namespace

TEST_CASE("sums take the buffers that PyTorch took") {
  for (const SumCase& c : sums) {
    INFO("[" << c.rows << ", " << c.cols << "] of " << c.element_bytes << " bytes, over " << static_cast<int>(c.over) << ", on "
             << c.multiprocessors << " multiprocessors of " << c.compute_capability);
    const Reduction r = sum(c);
    CHECK(r.carry == c.carry);
    ReductionLaunch first;
    ReductionLaunch last;
    int staged = 0;
    for (int i = 0; i < r.launches; ++i) {
      if (r.launch[i].accumulator == 0) continue;
      if (staged++ == 0) first = r.launch[i];
      last = r.launch[i];
    }
    CHECK(staged == c.staged);
    CHECK(first.accumulator == c.first_accumulator);
    CHECK(first.semaphores == c.first_semaphores);
    CHECK(last.accumulator == c.last_accumulator);
  }
}

TEST_CASE("up to 3072 indices, the embedding's gradient is the table alone") {
  const EmbeddingBackward few = embedding_backward(3072, 50257, 768, 4, 86);
  CHECK_FALSE(few.sorted);
  CHECK(few.table_gradient == 154389504);
  CHECK(embedding_backward(3073, 50257, 768, 4, 86).sorted);
}

TEST_CASE("the embedding's gradient takes the scratch that PyTorch took") {
  for (const EmbeddingCase& c : embeddings) {
    INFO(c.n << " indices into " << c.table_rows << " rows on " << c.compute_capability);
    const EmbeddingBackward e = embedding_backward(c.n, c.table_rows, 1, 4, c.compute_capability);
    CHECK(e.sort_scratch == c.sort_scratch);
    CHECK(e.unique_scratch == c.unique_scratch);
    CHECK(e.scan_scratch == c.scan_scratch);
  }
}

TEST_CASE("the embedding's partial sums are fp32 whatever the table is") {
  const EmbeddingBackward e = embedding_backward(8192, 50257, 768, 2, 86);
  CHECK(e.table_gradient == 77194752);
  CHECK(e.indices_bytes == 65536);
  CHECK(e.segment_bytes == 65536);
  CHECK(e.partial_offsets == 72088);
  CHECK(e.partial_sums == 27681792);
  const EmbeddingBackward small_table = embedding_backward(4096, 65, 37, 4, 86);
  CHECK(small_table.segment_bytes == 520);
  CHECK(small_table.partial_offsets == 3792);
  CHECK(small_table.partial_sums == 70152);
}

TEST_CASE("the norm's partial sums go by the largest gradient") {
  CHECK(norm_partials(3, 120000) == 24);
  CHECK(norm_partials(5, 200000) == 80);
  CHECK(norm_partials(600, 10) == 2400);
  CHECK(norm_partials(1, 1) == 4);
  CHECK(norm_partials(2, 38597376) == 4712);
  CHECK(norm_partials(28, 38597376) == 65968);
}
