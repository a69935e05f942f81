#include "draw/plot.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "draw/series.h"
#include "text/text.h"
#include "text/units.h"

namespace whatfits::cli {
namespace {

constexpr std::size_t kAxis = 7;  // "  40 ┤ "
constexpr const char* kEighths[] = {" ", "▁", "▂", "▃", "▄", "▅", "▆", "▇", "█"};

// Colour only tells the phases apart that are also named below.
const char* code_of(Phase phase) {
  switch (phase) {
    case Phase::forward:
      return "36";
    case Phase::backward:
      return "35";
    case Phase::optimizer_step:
      return "33";
    default:
      return "34";
  }
}

std::string phase_label(Phase phase, std::size_t room) {
  std::string name(name_of(phase));
  std::replace(name.begin(), name.end(), '_', ' ');
  if (name.size() <= room) return name;
  name = name.substr(0, name.find(' '));  // "optimizer", "zero"
  if (name.size() <= room) return name;
  return room >= 3 ? name.substr(0, 3) : std::string();
}

double share(Bytes bytes, Bytes top) { return static_cast<double>(bytes) / static_cast<double>(top); }

class Canvas {
 public:
  Canvas(const PlotSeries& series, Bytes top, Bytes free, std::size_t height) : series_(series), top_(top), free_(free), height_(height) {}

  std::size_t line_of(Bytes bytes) const {  // counted from the top
    const auto up = static_cast<std::size_t>(share(bytes, top_) * static_cast<double>(height_));
    return height_ - 1 - std::min(up, height_ - 1);
  }

  std::string cell(std::size_t line, std::size_t column) const {
    const PlotColumn& shown = series_.columns[column];
    const double filled = share(shown.allocated, top_) * static_cast<double>(height_) - static_cast<double>(height_ - 1 - line);
    const int eighths = std::clamp(static_cast<int>(std::lround(filled * 8)), 0, 8);
    if (eighths > 0) return kEighths[eighths];
    if (line == line_of(shown.reserved)) return "─";
    if (free_ <= top_ && line == line_of(free_)) return "·";
    return " ";
  }

 private:
  const PlotSeries& series_;
  Bytes top_;
  Bytes free_;
  std::size_t height_;
};

// The cells of a line, coloured by the phase they are in.
std::string coloured_line(const Canvas& canvas, const PlotSeries& series, std::size_t line, const Style& style) {
  std::string out;
  for (const PhaseSpan& span : series.phases) {
    std::string area;
    for (std::size_t column = span.begin; column < span.end; ++column) {
      const std::string cell = canvas.cell(line, column);
      const bool line_art = cell == "─" || cell == "·" || cell == " ";
      area += line_art ? cell : style.wrap(code_of(span.phase), cell);
    }
    out += area;
  }
  return out;
}

std::string peak_line(const PlotSeries& series, const Timeline& timeline, std::size_t columns) {
  const std::string label = "peak " + mib(timeline.rows[series.peak_row].counters.allocated) + " MiB";
  const std::size_t at = series.peak_column;
  if (at + 2 + label.size() <= columns) return std::string(kAxis + at, ' ') + "▼ " + label;
  const std::size_t before = kAxis + at - std::min(kAxis + at, label.size() + 1);
  return std::string(before, ' ') + label + " ▼";
}

}  // namespace

std::string terminal_plot(const Timeline& timeline, Bytes free, const PlotSize& size, const Style& style) {
  const std::size_t columns = std::max<std::size_t>(size.width, 40) - kAxis - 1;
  const PlotSeries series = plot_series(timeline, columns);
  Bytes top = std::max<Bytes>(1, std::max(series.highest_reserved, timeline.rows[series.peak_row].counters.allocated));
  if (free > top && free / 5 * 4 <= top) top = free;  // the card's limit is worth showing where the run comes near it
  const Canvas canvas(series, top, free, size.height);

  std::vector<std::string> labels(size.height);
  for (const Bytes mark : axis_marks(top, 5)) {
    if (mark > 0) labels[canvas.line_of(mark)] = mark_text(mark, top);
  }

  std::string out = std::string(kAxis - 3 - 1, ' ') + mark_unit(top) + "\n";
  out += peak_line(series, timeline, columns) + "\n";
  for (std::size_t line = 0; line < size.height; ++line) {
    const std::string& label = labels[line];
    out += std::string(kAxis - 2 - std::min(kAxis - 2, label.size()), ' ') + label + (label.empty() ? " │" : " ┤");
    out += coloured_line(canvas, series, line, style);
    out.erase(out.find_last_not_of(' ') + 1);
    out += "\n";
  }

  std::string axis(kAxis - 2, ' ');
  axis.back() = '0';
  axis += " └";
  std::string names(kAxis, ' ');
  for (const PhaseSpan& span : series.phases) {
    const std::size_t room = span.end - span.begin;
    for (std::size_t i = 0; i < room; ++i) axis += i == 0 && span.begin > 0 ? "┴" : "─";
    const std::string label = phase_label(span.phase, room - std::min<std::size_t>(room, 1));
    const std::size_t before = (room - std::min(room, label.size())) / 2;
    names += std::string(before, ' ') + style.wrap(code_of(span.phase), label) + std::string(room - before - label.size(), ' ');
  }
  names.erase(names.find_last_not_of(' ') + 1);
  return out + axis + "\n" + names + "\n";
}

}  // namespace whatfits::cli
