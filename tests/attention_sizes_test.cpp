// What PyTorch's attention kernels take, against what they took.
//
// Recorded from PyTorch 2.6.0 on a virtual device: one call of scaled_dot_product_attention under sdpa_kernel(backend) and its
// backward, q, k and v being transposed views of one [B, T, 3*H*D] tensor, as the requests in torch.cuda.memory._snapshot()'s
// trace; backends by torch._fused_sdp_choice. Thousands more cases agreed, with the order of every request and free.
#include <catch2/catch_test_macros.hpp>

#include "torch/kernel_sizes.h"

using namespace whatfits;
using namespace whatfits::torch;

namespace {

struct FlashCase {
  std::int64_t batch, heads, tokens, head_size;
  bool dropout;
  std::int64_t multiprocessors;
  Bytes padded_bytes;  ///< 0: D is divisible by 8
  Bytes logsumexp, logsumexp_parts, output_parts, softmax_d, dq_accumulator;
};

constexpr FlashCase flash_cases[] = {
    // clang-format off
    {4, 1, 256, 128, false, 84, 0, 4096, 8192, 1048576, 4096, 524288},
    {8, 1, 200, 128, false, 84, 0, 6400, 12800, 1638400, 8192, 1048576},
    {4, 2, 128, 232, false, 84, 0, 4096, 8192, 2097152, 4096, 1048576},
    {1, 3, 1024, 240, false, 84, 0, 12288, 36864, 9437184, 12288, 3145728},
    {2, 3, 512, 192, false, 84, 0, 12288, 36864, 7077888, 12288, 2359296},
    {4, 1, 600, 40, false, 84, 0, 9600, 28800, 1843200, 10240, 655360},
    {1, 1, 4096, 64, false, 84, 0, 16384, 32768, 2097152, 16384, 1048576},
    {4, 3, 2048, 100, false, 84, 5111808, 98304, 0, 0, 98304, 12582912},
    {1, 3, 300, 100, false, 84, 187200, 3600, 10800, 1382400, 4608, 589824},
    {3, 2, 512, 100, false, 84, 638976, 12288, 24576, 3145728, 12288, 1572864},
    {1, 1, 1000, 192, true, 84, 0, 4000, 0, 0, 4096, 786432},
    {8, 2, 511, 64, false, 84, 0, 32704, 0, 0, 32768, 2097152},
    {1, 6, 64, 112, true, 84, 0, 1536, 0, 0, 3072, 393216},
    {2, 6, 256, 112, false, 132, 0, 12288, 24576, 3145728, 12288, 1572864},
    {8, 2, 200, 160, false, 132, 0, 12800, 51200, 8192000, 16384, 2621440},
    {1, 16, 511, 64, false, 132, 0, 32704, 65408, 4186112, 32768, 2097152},
    {1, 1, 2048, 32, false, 132, 0, 8192, 65536, 2097152, 8192, 262144},
    {1, 1, 8192, 40, false, 132, 0, 32768, 65536, 4194304, 32768, 2097152},
    {4, 1, 256, 192, false, 132, 0, 4096, 16384, 3145728, 4096, 786432},
    {4, 1, 1024, 96, false, 132, 0, 16384, 65536, 6291456, 16384, 1572864},
    {3, 3, 1000, 33, false, 132, 720000, 36000, 144000, 9216000, 36864, 2359296},
    {1, 3, 300, 100, false, 132, 187200, 3600, 10800, 1382400, 4608, 589824},
    {3, 2, 128, 20, false, 132, 36864, 3072, 0, 0, 3072, 98304},
    {1, 6, 300, 72, true, 132, 0, 7200, 0, 0, 9216, 884736},
    {8, 12, 512, 16, false, 132, 0, 196608, 0, 0, 196608, 6291456},
    {1, 12, 4096, 80, false, 132, 0, 196608, 0, 0, 196608, 18874368},
    {1, 3, 3000, 256, false, 108, 0, 36000, 108000, 27648000, 36864, 9437184},
    {1, 6, 1024, 32, false, 108, 0, 24576, 49152, 1572864, 24576, 786432},
    {3, 6, 128, 160, false, 108, 0, 9216, 18432, 2949120, 9216, 1474560},
    {1, 12, 128, 176, false, 108, 0, 6144, 12288, 2359296, 6144, 1179648},
    {1, 3, 600, 176, false, 108, 0, 7200, 36000, 6912000, 7680, 1474560},
    {3, 2, 513, 40, false, 108, 0, 12312, 36936, 2363904, 15360, 983040},
    {1, 3, 1024, 224, false, 108, 0, 12288, 49152, 11010048, 12288, 2752512},
    {2, 3, 4096, 20, false, 108, 1179648, 98304, 0, 0, 98304, 3145728},
    {8, 6, 65, 100, false, 108, 648960, 12480, 0, 0, 24576, 3145728},
    {1, 3, 65, 33, false, 108, 15600, 780, 0, 0, 1536, 98304},
    {8, 12, 1, 232, true, 108, 0, 384, 0, 0, 49152, 12582912},
    {4, 4, 4096, 40, true, 108, 0, 262144, 0, 0, 262144, 16777216},
    {1, 12, 3000, 64, true, 108, 0, 144000, 0, 0, 147456, 9437184},
    // clang-format on
};

struct EfficientCase {
  std::int64_t batch, heads, tokens, head_size;
  Bytes element_bytes;
  bool dropout;
  int compute_capability;
  Bytes logsumexp, output_accumulator, delta, workspace;
};

constexpr EfficientCase efficient_cases[] = {
    // clang-format off
    {1, 1, 1024, 12, 4, false, 86, 4096, 0, 4096, 262400},
    {8, 12, 100, 60, 4, false, 86, 49152, 0, 38400, 3148800},
    {1, 220, 512, 84, 4, false, 86, 450560, 0, 450560, 57728000},
    {1, 220, 64, 76, 4, true, 86, 56320, 0, 56320, 7216000},
    {8, 12, 192, 104, 4, false, 86, 73728, 0, 73728, 9446400},
    {8, 12, 1000, 100, 4, false, 86, 393216, 0, 384000, 50380800},
    {1, 220, 1024, 224, 4, false, 86, 901120, 0, 901120, 230912000},
    {1, 1, 128, 240, 4, false, 86, 512, 0, 512, 131200},
    {2, 3, 64, 40, 2, true, 86, 1536, 0, 1536, 98400},
    {1, 220, 128, 8, 2, false, 86, 112640, 0, 112640, 7216000},
    {1, 220, 1024, 88, 2, false, 86, 901120, 0, 901120, 115399680},
    {8, 12, 192, 72, 2, false, 86, 73728, 0, 73728, 12589056},
    {1, 1, 128, 112, 2, false, 86, 512, 0, 512, 196672},
    {8, 12, 100, 112, 2, false, 86, 49152, 0, 38400, 18880512},
    {1, 220, 1024, 144, 2, true, 86, 901120, 129761280, 901120, 201935360},
    {8, 12, 192, 224, 2, false, 86, 73728, 16515072, 73728, 50343936},
    {1, 220, 1024, 64, 4, false, 90, 901120, 0, 901120, 57728000},
    {1, 220, 64, 4, 4, true, 90, 56320, 0, 56320, 3608000},
    {1, 220, 100, 72, 4, false, 90, 112640, 0, 88000, 14424960},
    {8, 12, 64, 96, 4, false, 90, 24576, 0, 24576, 6294528},
    {8, 12, 512, 116, 4, false, 90, 196608, 0, 196608, 25178112},
    {1, 1, 192, 124, 4, false, 90, 768, 0, 768, 131136},
    {8, 12, 192, 148, 4, false, 90, 73728, 0, 73728, 18883584},
    {8, 12, 128, 192, 4, false, 90, 49152, 0, 49152, 9441792},
    {2, 3, 192, 8, 2, false, 90, 4608, 0, 4608, 295200},
    {1, 1, 100, 56, 2, false, 90, 512, 0, 400, 32800},
    {1, 1, 192, 72, 2, false, 90, 768, 0, 768, 131104},
    {1, 1, 1024, 88, 2, false, 90, 4096, 0, 4096, 524416},
    {1, 220, 512, 104, 2, true, 90, 450560, 0, 450560, 57685760},
    {8, 12, 128, 112, 2, true, 90, 49152, 0, 49152, 6292992},
    {1, 1, 192, 184, 2, false, 90, 768, 141312, 768, 589920},
    {1, 1, 100, 200, 2, false, 90, 512, 80000, 400, 393280},
    {8, 12, 64, 56, 4, false, 80, 24576, 0, 24576, 1574400},
    {8, 12, 512, 56, 4, false, 80, 196608, 0, 196608, 12595200},
    {8, 12, 64, 72, 4, false, 80, 24576, 0, 24576, 6294528},
    {1, 220, 1000, 76, 4, false, 80, 901120, 0, 880000, 115399680},
    {1, 220, 192, 116, 4, false, 80, 168960, 0, 168960, 28849920},
    {1, 220, 192, 120, 4, false, 80, 168960, 0, 168960, 28849920},
    {1, 1, 1000, 148, 4, true, 80, 4096, 0, 4000, 786816},
    {1, 220, 1024, 204, 4, false, 80, 901120, 0, 901120, 230799360},
    {2, 3, 1024, 8, 2, false, 80, 24576, 0, 24576, 1574400},
    {1, 220, 128, 8, 2, false, 80, 112640, 0, 112640, 7216000},
    {1, 1, 1000, 96, 2, false, 80, 4096, 0, 4000, 524416},
    {1, 1, 128, 88, 2, false, 80, 512, 0, 512, 65552},
    {2, 3, 100, 120, 2, true, 80, 3072, 0, 2400, 393312},
    {8, 12, 128, 120, 2, false, 80, 49152, 0, 49152, 6292992},
    {8, 12, 1000, 248, 2, false, 80, 393216, 95232000, 384000, 125878272},
    {2, 3, 1024, 176, 2, false, 80, 24576, 4325376, 24576, 17303808},
    {1, 220, 100, 4, 4, true, 75, 112640, 0, 88000, 7216000},
    {8, 12, 192, 8, 4, false, 75, 73728, 0, 73728, 4723200},
    {1, 220, 100, 96, 4, false, 75, 112640, 0, 88000, 14432000},
    {2, 3, 512, 96, 4, true, 75, 12288, 0, 12288, 1574400},
    {1, 1, 128, 104, 4, true, 75, 512, 0, 512, 65600},
    {1, 220, 192, 120, 4, false, 75, 168960, 0, 168960, 21648000},
    {2, 3, 1024, 172, 4, false, 75, 24576, 0, 24576, 4723200},
    {1, 220, 100, 236, 4, false, 75, 112640, 0, 88000, 28864000},
    {1, 1, 64, 32, 2, true, 75, 256, 0, 256, 16400},
    {1, 220, 64, 24, 2, true, 75, 56320, 0, 56320, 3608000},
    {8, 12, 100, 96, 2, true, 75, 49152, 0, 38400, 6294528},
    {2, 3, 64, 96, 2, false, 75, 1536, 0, 1536, 393408},
    {8, 12, 192, 104, 2, false, 75, 73728, 0, 73728, 12589056},
    {2, 3, 192, 120, 2, false, 75, 4608, 0, 4608, 786816},
    {8, 12, 64, 240, 2, false, 75, 24576, 5898240, 24576, 25171968},
    {1, 1, 512, 184, 2, true, 75, 2048, 376832, 2048, 1441984},
    {2, 3, 129, 7, 4, false, 50, 3840, 0, 3096, 0},
    {2, 3, 1000, 136, 4, false, 60, 24576, 0, 24000, 0},
    {2, 3, 129, 7, 2, false, 60, 3840, 0, 3096, 295200},
    {2, 3, 1000, 130, 2, false, 60, 24576, 3120000, 24000, 5313024},
    {2, 3, 257, 104, 2, false, 61, 6912, 0, 6168, 1377216},
    {2, 3, 65, 33, 4, false, 70, 2304, 0, 1560, 196800},
    {2, 3, 257, 72, 2, false, 70, 6912, 0, 6168, 1180224},
    {2, 3, 129, 136, 2, false, 70, 3840, 421056, 3096, 3539520},
    // clang-format on
};

AttentionBackend half_training(std::int64_t head_size, int compute_capability, bool dropout = false) {
  return attention_backend({2, true, head_size, true, dropout}, compute_capability);
}

}  // namespace

TEST_CASE("flash attention takes the buffers that PyTorch took") {
  for (const FlashCase& c : flash_cases) {
    INFO(c.batch << " x " << c.heads << " x " << c.tokens << " x " << c.head_size << " on " << c.multiprocessors);
    const FlashAttention f = flash_attention(c.batch, c.heads, c.tokens, c.head_size, c.dropout, c.multiprocessors);
    CHECK(f.padded == (c.padded_bytes != 0));
    if (f.padded) CHECK(f.padded_bytes == c.padded_bytes);
    CHECK(f.logsumexp == c.logsumexp);
    CHECK(f.logsumexp_parts == c.logsumexp_parts);
    CHECK(f.output_parts == c.output_parts);
    CHECK(f.softmax_d == c.softmax_d);
    CHECK(f.dq_accumulator == c.dq_accumulator);
  }
}

TEST_CASE("memory-efficient attention takes the buffers that PyTorch took") {
  for (const EfficientCase& c : efficient_cases) {
    INFO(c.batch << " x " << c.heads << " x " << c.tokens << " x " << c.head_size << " of " << c.element_bytes << " bytes on "
                 << c.compute_capability);
    const EfficientAttention e =
        efficient_attention(c.batch, c.heads, c.tokens, c.head_size, c.element_bytes, c.dropout, c.compute_capability);
    CHECK(e.logsumexp == c.logsumexp);
    CHECK(e.output_accumulator == c.output_accumulator);
    CHECK(e.delta == c.delta);
    CHECK(e.workspace == c.workspace);
  }
}

TEST_CASE("16-bit attention is flash from 8.0 to 9.0, up to a head size of 256") {
  for (const int cc : {80, 86, 89, 90}) {
    CHECK(half_training(64, cc) == AttentionBackend::flash);
    CHECK(half_training(33, cc) == AttentionBackend::flash);
    CHECK(half_training(256, cc) == AttentionBackend::flash);
    CHECK(half_training(264, cc) == AttentionBackend::efficient);
    CHECK(half_training(260, cc) == AttentionBackend::math);
  }
  CHECK(half_training(64, 75) == AttentionBackend::math);
  CHECK(half_training(64, 120) == AttentionBackend::math);
  CHECK(attention_backend({2, false, 64, true, false}, 75) == AttentionBackend::efficient);
  CHECK(attention_backend({2, false, 60, true, false}, 75) == AttentionBackend::math);
}

TEST_CASE("before 7.0 fp16 attention is memory-efficient at any head size") {
  CHECK(attention_backend({2, false, 7, true, false}, 61) == AttentionBackend::efficient);
  CHECK(attention_backend({2, true, 64, true, false}, 61) == AttentionBackend::math);
  CHECK(efficient_attention(2, 3, 129, 136, 2, false, 70).delta_outside);
  CHECK_FALSE(efficient_attention(2, 3, 129, 128, 2, false, 70).delta_outside);
  CHECK_FALSE(efficient_attention(2, 3, 129, 136, 2, false, 75).delta_outside);
  CHECK_FALSE(efficient_attention(2, 3, 129, 136, 2, false, 61).delta_outside);
}

TEST_CASE("8.6 and 8.9 do not train some large heads with flash") {
  for (const int cc : {86, 89}) {
    CHECK(half_training(192, cc) == AttentionBackend::flash);
    CHECK(half_training(200, cc) == AttentionBackend::efficient);
    CHECK(half_training(196, cc) == AttentionBackend::math);
    CHECK(half_training(224, cc) == AttentionBackend::efficient);
    CHECK(half_training(232, cc) == AttentionBackend::flash);
    CHECK(half_training(232, cc, true) == AttentionBackend::efficient);
    CHECK(attention_backend({2, true, 200, false, false}, cc) == AttentionBackend::flash);
  }
  CHECK(half_training(200, 80) == AttentionBackend::flash);
}

TEST_CASE("fp32 attention is memory-efficient where the head size divides") {
  CHECK(attention_backend({4, false, 64, true, false}, 86) == AttentionBackend::efficient);
  CHECK(attention_backend({4, false, 20, true, false}, 86) == AttentionBackend::efficient);
  CHECK(attention_backend({4, false, 33, true, false}, 86) == AttentionBackend::math);
  CHECK(attention_backend({4, false, 33, true, false}, 75) == AttentionBackend::efficient);
  CHECK(attention_backend({4, false, 64, true, false}, 120) == AttentionBackend::math);
}
