#include "draw/series.h"

#include <algorithm>

namespace whatfits::cli {
namespace {

std::array<Bytes, kCategories> with_rounding(const TimelineRow& row) {
  std::array<Bytes, kCategories> categories = row.categories;
  Bytes& rounding = categories[static_cast<std::size_t>(Category::rounding)];
  rounding = 0;
  Bytes sum = 0;
  for (const Bytes bytes : categories) sum += bytes;
  rounding = row.counters.allocated - std::min(sum, row.counters.allocated);
  return categories;
}

bool short_axis(Bytes top) { return top < 2 * GiB; }

}  // namespace

PlotSeries plot_series(const Timeline& timeline, std::size_t count) {
  const std::vector<TimelineRow>& rows = timeline.rows;
  PlotSeries series;
  const auto less = [](const TimelineRow& a, const TimelineRow& b) { return a.counters.allocated < b.counters.allocated; };
  series.peak_row = static_cast<std::size_t>(std::max_element(rows.begin(), rows.end(), less) - rows.begin());

  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t begin = i * rows.size() / count;
    const std::size_t end = std::max(begin + 1, (i + 1) * rows.size() / count);
    std::size_t shown = begin;
    PlotColumn column;
    for (std::size_t row = begin; row < end; ++row) {
      if (rows[row].counters.allocated > rows[shown].counters.allocated) shown = row;
      column.reserved = std::max(column.reserved, rows[row].counters.reserved);
    }
    column.allocated = rows[shown].counters.allocated;
    column.categories = with_rounding(rows[shown]);
    series.highest_reserved = std::max(series.highest_reserved, column.reserved);
    if (begin <= series.peak_row && series.peak_row < end) series.peak_column = i;
    if (series.phases.empty() || series.phases.back().phase != rows[begin].phase) {
      series.phases.push_back({rows[begin].phase, i, i + 1});
    } else {
      series.phases.back().end = i + 1;
    }
    series.columns.push_back(column);
  }
  return series;
}

std::vector<Bytes> axis_marks(Bytes top, int marks) {
  const Bytes unit = short_axis(top) ? MiB : GiB;
  const Bytes wanted = std::max<Bytes>(1, top / unit / static_cast<Bytes>(std::max(marks, 1)));
  Bytes step = 1;
  for (Bytes ten = 1;; ten *= 10) {  // 1, 2, 5, 10, 20, …
    for (const Bytes factor : {Bytes{1}, Bytes{2}, Bytes{5}}) {
      step = ten * factor;
      if (step >= wanted) break;
    }
    if (step >= wanted || ten > UINT64_MAX / 100) break;
  }
  std::vector<Bytes> out;
  for (Bytes mark = 0; mark <= top / unit; mark += step) out.push_back(mark * unit);
  return out;
}

std::string mark_text(Bytes mark, Bytes top) { return std::to_string(mark / (short_axis(top) ? MiB : GiB)); }

const char* mark_unit(Bytes top) { return short_axis(top) ? "MiB" : "GiB"; }

}  // namespace whatfits::cli
