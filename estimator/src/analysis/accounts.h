// What engines other than torch answer with: lines that are summed up, nothing replayed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "whatfits/config.h"
#include "whatfits/report.h"

namespace whatfits {

/// What an engine holds at its peak. Sums saturate at 2^64 - 1.
struct Account {
  std::uint64_t parameters = 0;
  std::vector<LedgerRow> rows;  ///< they sum to `allocated`
  Bytes allocated = 0;
  Bytes reserved = 0;
  std::vector<std::string> assumptions;
};

Account formula_account(const Config& config);
Account llm_c_account(const Config& config);
Account mlx_account(const Config& config);

/// Lines whose elements are a product of dimensions, written as people write it: "3·L·B·T·C". Known are B (sequences), T (tokens),
/// C (width), NH (heads), L (layers), V (vocabulary), P (positions), N (parameters), whole numbers, and T² and C².
class Products {
 public:
  explicit Products(const Config& config) : config_(config) {}
  std::uint64_t vocabulary = 0;  ///< V; 0 for the config's
  std::uint64_t parameters = 0;  ///< N
  std::uint64_t elements(std::string_view formula) const;
  /// Adds a line of elements(formula) · each bytes, unless that is nothing, and gives its bytes.
  Bytes add(Account& account, const char* label, Category category, std::string_view formula, Bytes each) const;

 private:
  std::uint64_t factor(std::string_view name) const;
  const Config& config_;
};

}  // namespace whatfits
