// Formulas and names, as people read them in the ledger.
#include <catch2/catch_test_macros.hpp>
#include <cctype>
#include <cstddef>
#include <initializer_list>
#include <map>
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
  return formula_of(program, {.shape = Shape(dims), .dtype = dtype});
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

/// Takes `prefix` off the front of `text` if it is there.
bool take(std::string& text, const std::string& prefix) {
  if (!text.starts_with(prefix)) return false;
  text.erase(0, prefix.size());
  return true;
}

/// The value of "2·B·T²·C/NH·4".
double worked_out(std::string formula, const std::map<std::string, double>& letters) {
  double value = 1;
  while (!formula.empty()) {
    const bool divide = take(formula, "/");
    if (!divide) take(formula, "·");
    std::size_t length = 1;
    while (length < formula.size() && std::isalnum(static_cast<unsigned char>(formula[length])) != 0) ++length;
    const std::string word = formula.substr(0, length);
    formula.erase(0, length);
    const double factor = letters.contains(word) ? letters.at(word) : std::stod(word);
    const int power = take(formula, "²") ? 2 : take(formula, "³") ? 3 : 1;
    for (int i = 0; i < power; ++i) value = divide ? value / factor : value * factor;
  }
  return value;
}

TEST_CASE("formulas in a real ledger give the row's bytes when worked out", "[names]") {
  const Config config =
      testing::config_of(std::string(R"({"model": {"model_type": "gpt2-from-scratch", "n_layer": 2, "n_embd": 96, "n_head": 6,
                                         "vocab_size": 1009, "n_positions": 80}, "batch": 3, "seq_len": 61})"));
  const Report report = estimate(config);
  const std::map<std::string, double> letters = {{"B", 3}, {"T", 61}, {"C", 96}, {"NH", 6}, {"V", 1009}, {"P", 80}};
  int checked = 0;
  for (const LedgerRow& row : report.ledger.rows) {
    if (row.formula.empty()) continue;
    INFO(row.label << ": " << row.formula);
    const double value = worked_out(row.formula, letters);
    CHECK(value * row.count == static_cast<double>(row.bytes));
    ++checked;
  }
  CHECK(checked > 20);
}

}  // namespace
}  // namespace whatfits
