// The matrix libraries side by side, on the products of a GPT-2 124M step at batch 1 and 1024 tokens: why native/ prefers oneDNN.
// Rates are of multiplications and additions.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <string>
#include <vector>

#if defined(WHATFITS_ONEDNN)
#include <dnnl.h>
#endif
#if defined(WHATFITS_OPENBLAS)
#include <cblas.h>
#endif
#if defined(WHATFITS_EIGEN)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wconversion"
#include <Eigen/Core>
#pragma GCC diagnostic pop
#endif

namespace {

/// C = A B with A of m x k and B of k x n. A transposed operand lies column by column.
struct Product {
  const char* name;
  int m, n, k;
  bool a_lies, b_lies;
};
constexpr int kTokens = 1024;
constexpr int kWidth = 768;
constexpr int kVocabulary = 50257;
constexpr Product kProducts[] = {
    {"qkv", kTokens, 3 * kWidth, kWidth, false, true},
    {"qkv: gradient of the input", kTokens, kWidth, 3 * kWidth, false, false},
    {"qkv: gradient of the weight", 3 * kWidth, kWidth, kTokens, true, false},
    {"mlp down", kTokens, kWidth, 4 * kWidth, false, true},
    {"head", kTokens, kVocabulary, kWidth, false, true},
    {"head: gradient of the weight", kVocabulary, kWidth, kTokens, true, false},
    {"one head's scores", kTokens, kTokens, 64, false, true},
};

struct Operands {
  explicit Operands(const Product& p) : a(size(p.m, p.k), 0.5F), b(size(p.k, p.n), 0.25F), c(size(p.m, p.n)) {}
  static std::size_t size(int rows, int cols) { return static_cast<std::size_t>(rows) * static_cast<std::size_t>(cols); }
  std::vector<float> a, b, c;
};

#if defined(WHATFITS_ONEDNN)
void onednn(const Product& p, Operands& o) {
  dnnl_sgemm(p.a_lies ? 'T' : 'N', p.b_lies ? 'T' : 'N', p.m, p.n, p.k, 1.0F, o.a.data(), p.a_lies ? p.m : p.k, o.b.data(),
             p.b_lies ? p.k : p.n, 0.0F, o.c.data(), p.n);
}
#endif
#if defined(WHATFITS_OPENBLAS)
void openblas(const Product& p, Operands& o) {
  cblas_sgemm(CblasRowMajor, p.a_lies ? CblasTrans : CblasNoTrans, p.b_lies ? CblasTrans : CblasNoTrans, p.m, p.n, p.k, 1.0F, o.a.data(),
              p.a_lies ? p.m : p.k, o.b.data(), p.b_lies ? p.k : p.n, 0.0F, o.c.data(), p.n);
}
#endif
#if defined(WHATFITS_EIGEN)
void eigen(const Product& p, Operands& o) {
  using Rows = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Columns = Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  Eigen::Map<Rows> c(o.c.data(), p.m, p.n);
  const Eigen::Map<const Rows> a(o.a.data(), p.m, p.k);
  const Eigen::Map<const Columns> a_lies(o.a.data(), p.m, p.k);
  const Eigen::Map<const Rows> b(o.b.data(), p.k, p.n);
  const Eigen::Map<const Columns> b_lies(o.b.data(), p.k, p.n);
  if (p.a_lies) {
    c.noalias() = a_lies * b;
  } else if (p.b_lies) {
    c.noalias() = a * b_lies;
  } else {
    c.noalias() = a * b;
  }
}
#endif

void add(const char* library, void (*multiply)(const Product&, Operands&)) {
  for (const Product& product : kProducts) {
    benchmark::RegisterBenchmark((std::string(product.name) + "/" + library).c_str(),
                                 [&product, multiply](benchmark::State& state) {
                                   Operands operands(product);
                                   for (auto _ : state) multiply(product, operands);
                                   state.counters["flops"] = benchmark::Counter(2.0 * product.m * product.n * product.k,
                                                                                benchmark::Counter::kIsIterationInvariantRate);
                                 })
        ->Unit(benchmark::kMillisecond)
        ->UseRealTime();
  }
}

}  // namespace

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
#if defined(WHATFITS_ONEDNN)
  add("oneDNN", onednn);
#endif
#if defined(WHATFITS_EIGEN)
  add("Eigen", eigen);
#endif
#if defined(WHATFITS_OPENBLAS)
  benchmark::AddCustomContext("OpenBLAS", openblas_get_config());
  add("OpenBLAS", openblas);
#endif
  benchmark::RunSpecifiedBenchmarks();
}
