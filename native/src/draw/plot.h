// A step drawn with the characters of a terminal.
#pragma once

#include <cstddef>
#include <string>

#include "text/style.h"
#include "whatfits/estimate.h"

namespace whatfits::cli {

struct PlotSize {
  std::size_t width = 100;  ///< of the whole picture, at least 40
  std::size_t height = 18;  ///< of the area
};

/// Allocated as a filled area in eighths of a character, reserved as a line, what is free on the card as dots where it is near
/// enough, phases along the bottom, a mark over the peak. The timeline has at least one row.
std::string terminal_plot(const Timeline& timeline, Bytes free, const PlotSize& size, const Style& style);

}  // namespace whatfits::cli
