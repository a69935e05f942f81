#include "analysis/accounts.h"

#include "analysis/saturating.h"

namespace whatfits {

std::uint64_t Products::factor(std::string_view name) const {
  using saturating::dimension;
  const ModelConfig& model = config_.model;
  if (name == "B") return dimension(config_.batch);
  if (name == "T") return dimension(config_.seq_len);
  if (name == "C") return dimension(model.n_embd);
  if (name == "NH") return dimension(model.n_head);
  if (name == "L") return dimension(model.n_layer);
  if (name == "V") return vocabulary != 0 ? vocabulary : dimension(model.vocab_size);
  if (name == "P") return dimension(model.n_positions);
  if (name == "N") return parameters;
  if (name == "T²" || name == "C²") return saturating::multiply(factor(name.substr(0, 1)), factor(name.substr(0, 1)));
  std::uint64_t number = 0;
  for (const char digit : name) number = number * 10 + static_cast<std::uint64_t>(digit - '0');
  return number;
}

std::uint64_t Products::elements(std::string_view formula) const {
  constexpr std::string_view kDot = "·";
  std::uint64_t product = 1;
  for (;;) {
    const std::size_t dot = formula.find(kDot);
    product = saturating::multiply(product, factor(formula.substr(0, dot)));
    if (dot == std::string_view::npos) return product;
    formula.remove_prefix(dot + kDot.size());
  }
}

Bytes Products::add(Account& account, const char* label, Category category, std::string_view formula, Bytes each) const {
  const Bytes bytes = saturating::multiply(elements(formula), each);
  if (bytes == 0) return 0;
  LedgerRow& row = account.rows.emplace_back();
  row.category = category;
  row.label = label;
  row.formula = std::string(formula) + "·" + std::to_string(each);
  row.bytes = bytes;
  account.allocated = saturating::add(account.allocated, bytes);
  return bytes;
}

}  // namespace whatfits
