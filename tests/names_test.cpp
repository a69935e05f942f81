// Formulas and names, as people read them in the ledger.
#include <catch2/catch_test_macros.hpp>
#include <cstddef>
#include <initializer_list>
#include <set>
#include <string>

#include "support/runs.h"
#include "whatfits/estimate.h"
#include "whatfits/program.h"

namespace whatfits {
namespace {

// GPT-2 small at batch 8.
constexpr Dim B{8, letters::B};
constexpr Dim T{1024, letters::T};
constexpr Dim C{768, letters::C};
constexpr Dim NH{12, letters::NH};
constexpr Dim V{50257, letters::V};
constexpr Dim P{1024, letters::P};

std::string formula(std::initializer_list<Dim> dims, DType dtype = DType::float32) {
  Program program;
  program.letter_values = {B.size, T.size, C.size, NH.size, V.size, P.size};
  TensorInfo tensor;
  tensor.dtype = dtype;
  for (const Dim dim : dims) tensor.dims[tensor.rank++] = dim;
  return formula_of(program, tensor);
}

TEST_CASE("formulas are products of the field's letters and the element's size", "[names]") {
  CHECK(formula({B, NH, T, T}) == "B·NH·T²·4");
  CHECK(formula({B, T, 3 * C}) == "3·B·T·C·4");
  CHECK(formula({B, T, 4 * C}, DType::bfloat16) == "4·B·T·C·2");
  CHECK(formula({B * T, V}) == "B·T·V·4");
  CHECK(formula({B, T}, DType::int64) == "B·T·8");
  CHECK(formula({T, T}, DType::boolean) == "T²·1");
  CHECK(formula({P, C}) == "C·P·4");
  CHECK(formula({P, P}) == "P²·4");
  CHECK(formula({C, C, C}) == "C³·4");
}

TEST_CASE("a letter that was divided by cancels, or stands below", "[names]") {
  const Dim head = C / NH;
  CHECK(head.size == 64);
  CHECK(formula({B, NH, T, head}) == "B·T·C·4");
  CHECK(formula({T, head}) == "T·C/NH·4");
  CHECK(formula({B, T, 2 * head}) == "2·B·T·C/NH·4");
  CHECK(formula({Dim{5, 0 - letters::T}}) == "5120/T·4");
}

TEST_CASE("a shape without letters, or that its letters do not explain, has no formula", "[names]") {
  CHECK(formula({Dim{8519680}}, DType::boolean).empty());
  CHECK(formula({}).empty());
  CHECK(formula({Dim{100, letters::C}}).empty());  // 100 is no multiple of 768
}

TEST_CASE("exponents of letters, signed", "[names]") {
  const Letters all = letters::B + 2 * letters::T - letters::NH - 2 * letters::C + 3 * letters::P - letters::V;
  CHECK(letters::exponent(all, 0) == 1);
  CHECK(letters::exponent(all, 1) == 2);
  CHECK(letters::exponent(all, 2) == -2);
  CHECK(letters::exponent(all, 3) == -1);
  CHECK(letters::exponent(all, 4) == -1);
  CHECK(letters::exponent(all, 5) == 3);
  CHECK(letters::exponent(0, 5) == 0);
}

TEST_CASE("types have PyTorch's names and sizes", "[names]") {
  CHECK(name_of(DType::float32) == "float32");
  CHECK(name_of(DType::boolean) == "bool");
  CHECK(size_of(DType::float64) == 8);
  CHECK(size_of(DType::int64) == 8);
  CHECK(size_of(DType::bfloat16) == 2);
  CHECK(size_of(DType::float16) == 2);
  CHECK(size_of(DType::boolean) == 1);
}

TEST_CASE("formulas in a real ledger give the row's bytes when worked out", "[names]") {
  const Config config =
      testing::config_of(std::string(R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 96, "n_head": 6,
                                         "vocab_size": 1009, "n_positions": 80}, "batch": 3, "seq_len": 61})"));
  const Report report = estimate(config);
  int checked = 0;
  for (const LedgerRow& row : report.ledger.rows) {
    if (row.formula.empty()) continue;
    INFO(row.label << ": " << row.formula);
    double value = 1;
    bool divide = false;
    std::string rest = row.formula;
    while (!rest.empty()) {
      // A factor: a number or a letter, perhaps with an exponent; before it "·" or "/".
      if (rest.starts_with("·")) divide = false, rest.erase(0, std::string("·").size());
      if (rest.starts_with("/")) divide = true, rest.erase(0, 1);
      double factor = 0;
      std::size_t length = 1;
      if (rest.starts_with("NH"))
        factor = 6, length = 2;
      else if (rest[0] == 'B')
        factor = 3;
      else if (rest[0] == 'T')
        factor = 61;
      else if (rest[0] == 'C')
        factor = 96;
      else if (rest[0] == 'V')
        factor = 1009;
      else if (rest[0] == 'P')
        factor = 80;
      else
        factor = static_cast<double>(std::stoul(rest, &length));
      rest.erase(0, length);
      int power = 1;
      if (rest.starts_with("²"))
        power = 2, rest.erase(0, std::string("²").size());
      else if (rest.starts_with("³"))
        power = 3, rest.erase(0, std::string("³").size());
      for (; power > 0; --power) value = divide ? value / factor : value * factor;
    }
    CHECK(value * row.count == static_cast<double>(row.bytes));
    ++checked;
  }
  CHECK(checked > 20);
}

}  // namespace
}  // namespace whatfits
