// A step's events brought to the columns of a picture.
#pragma once

#include <array>
#include <cstddef>
#include <string>
#include <vector>

#include "whatfits/estimate.h"

namespace whatfits::cli {

/// What one column of a picture shows: of the events it covers the one with the most allocated, so that no peak is lost.
struct PlotColumn {
  Bytes allocated = 0;
  Bytes reserved = 0;                           ///< the highest in the column
  std::array<Bytes, kCategories> categories{};  ///< at the event shown; rounding included, they sum to `allocated`
};

/// Consecutive columns of one phase.
struct PhaseSpan {
  Phase phase = Phase::forward;
  std::size_t begin = 0;
  std::size_t end = 0;
};

struct PlotSeries {
  std::vector<PlotColumn> columns;
  std::vector<PhaseSpan> phases;
  std::size_t peak_row = 0;  ///< first row of the timeline with the most allocated
  std::size_t peak_column = 0;
  Bytes highest_reserved = 0;
};

/// `count` columns (at least 1) of a timeline with at least one row. Fewer rows than columns are stretched.
PlotSeries plot_series(const Timeline& timeline, std::size_t count);

/// The same for the marks of an axis from 0 to `top`: about `marks` round values, 0 first.
std::vector<Bytes> axis_marks(Bytes top, int marks);

/// "12" or "0.5": an axis mark in GiB, or in MiB where the axis is short.
std::string mark_text(Bytes mark, Bytes top);
const char* mark_unit(Bytes top);

}  // namespace whatfits::cli
