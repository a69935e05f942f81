#include "text/table.h"

#include <algorithm>

#include "text/text.h"

namespace whatfits::cli {
namespace {

std::string line(std::size_t indent, const std::vector<std::string>& cells, const std::vector<std::size_t>& widths,
                 const std::vector<Table::Column>& columns) {
  std::string out(indent, ' ');
  for (std::size_t i = 0; i < columns.size(); ++i) {
    const std::string cell = i < cells.size() ? cells[i] : std::string();
    const std::string pad(widths[i] - std::min(widths[i], display_width(cell)), ' ');
    if (i > 0) out += "  ";
    out += columns[i].align == Table::Align::right ? pad + cell : cell + pad;
  }
  out.erase(out.find_last_not_of(' ') + 1);  // npos + 1 is 0
  return out + "\n";
}

}  // namespace

std::string Table::text(std::size_t indent) const {
  std::vector<std::size_t> widths(columns_.size());
  std::vector<std::string> heads;
  for (std::size_t i = 0; i < columns_.size(); ++i) {
    heads.push_back(columns_[i].head);
    if (heads_) widths[i] = display_width(columns_[i].head);
    for (const Row& row : rows_) {
      if (i < row.cells.size()) widths[i] = std::max(widths[i], display_width(row.cells[i]));
    }
  }
  std::string out = heads_ ? line(indent, heads, widths, columns_) : std::string();
  std::size_t across = columns_.empty() ? 0 : (columns_.size() - 1) * 2;
  for (const std::size_t width : widths) across += width;
  for (const Row& row : rows_) {
    if (row.rule) {
      out += std::string(indent, ' ');
      for (std::size_t i = 0; i < across; ++i) out += "─";
      out += "\n";
    } else {
      out += line(indent, row.cells, widths, columns_);
    }
  }
  return out;
}

}  // namespace whatfits::cli
