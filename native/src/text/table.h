// Aligned columns. Widths are those on a screen, so that "T²", "·" and coloured cells line up.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

namespace whatfits::cli {

class Table {
 public:
  enum class Align { left, right };
  struct Column {
    std::string head;
    Align align = Align::left;
  };

  explicit Table(std::vector<Column> columns) : columns_(std::move(columns)) {}

  /// Cells beyond the columns are dropped, missing ones are empty.
  void row(std::vector<std::string> cells) { rows_.push_back({std::move(cells), false}); }
  /// A line across all columns.
  void rule() { rows_.push_back({{}, true}); }
  /// No heads.
  void hide_heads() { heads_ = false; }

  /// Every line ends with a newline and none with a space. `indent` columns come first, two between columns.
  std::string text(std::size_t indent = 0) const;

 private:
  struct Row {
    std::vector<std::string> cells;
    bool rule = false;
  };
  std::vector<Column> columns_;
  std::vector<Row> rows_;
  bool heads_ = true;
};

}  // namespace whatfits::cli
