#include "draw/svg.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "draw/series.h"
#include "text/units.h"

namespace whatfits::cli {
namespace {

constexpr int kWidth = 960, kHeight = 520;
constexpr int kLeft = 64, kTop = 78, kPlotWidth = 700, kPlotHeight = 360;
constexpr int kBottom = kTop + kPlotHeight;
constexpr int kTenths = kPlotHeight * 10;  // heights are whole tenths of a pixel

// From the ground up: what stays, then what a step makes.
constexpr Category kStack[] = {Category::parameters, Category::buffers,     Category::workspaces,  Category::optimizer_state,
                               Category::gradients,  Category::inputs,      Category::activations, Category::attention,
                               Category::logits,     Category::temporaries, Category::rounding};

constexpr const char* kStyle =
    "svg{--ink:#1c1e21;--soft:#5c6370;--line:#d5d8de;--paper:#fff;--limit:#b3261e;background:var(--paper);"
    "font:13px system-ui,sans-serif}"
    "@media(prefers-color-scheme:dark){svg{--ink:#e8eaed;--soft:#a3aab5;--line:#3c4149;--paper:#16181c;--limit:#ff897d}}"
    "text{fill:var(--ink)}.s{fill:var(--soft);font-size:12px}.h{font-size:16px;font-weight:600}.e{text-anchor:end}.m{text-anchor:middle}"
    ".g{stroke:var(--line);fill:none}.r{stroke:var(--ink);stroke-width:1.5;fill:none;vector-effect:non-scaling-stroke}"
    ".l{stroke:var(--limit);stroke-width:1.5;stroke-dasharray:6 4}.lt{fill:var(--limit)}"
    ".p{fill:var(--paper);stroke:var(--ink);stroke-width:2}"
    ".c0{fill:#4e79a7}.c1{fill:#f28e2b}.c2{fill:#76b7b2}.c3{fill:#8c8c8c}.c4{fill:#6b5b95}.c5{fill:#59a14f}.c6{fill:#e3b93f}"
    ".c7{fill:#b07aa1}.c8{fill:#e15759}.c9{fill:#9d7660}.c10{fill:#b8bcc4}";

std::string escaped(const std::string& text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += c;
    }
  }
  return out;
}

std::string words_of(std::string_view name) {
  std::string text(name);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

std::string number(int value) { return std::to_string(value); }

std::string text_at(int x, int y, const char* classes, const std::string& text) {
  return "<text x=\"" + number(x) + "\" y=\"" + number(y) + "\"" + (*classes == '\0' ? "" : " class=\"" + std::string(classes) + "\"") +
         ">" + escaped(text) + "</text>\n";
}

// Steps of whole tenths of a pixel, one column a pixel, equal neighbours joined: "h3v-120h1".
class Steps {
 public:
  explicit Steps(int height = 0) : height_(height) {}
  void to(int height) {
    if (height != height_) {
      flush();
      path_ += "v" + number(height - height_);
      height_ = height;
    }
    ++run_;
  }
  std::string text() {
    flush();
    return path_;
  }

 private:
  void flush() {
    if (run_ > 0) path_ += "h" + number(run_);
    run_ = 0;
  }
  std::string path_;
  int height_;
  int run_ = 0;
};

class Picture {
 public:
  Picture(const Timeline& timeline, Bytes free, const SvgText& text)
      : timeline_(timeline), free_(free), text_(text), series_(plot_series(timeline, kPlotWidth)) {
    top_ = std::max<Bytes>(1, std::max(series_.highest_reserved, peak().counters.allocated));
    if (near_limit()) top_ = std::max(top_, free_);
    top_ += top_ / 16;  // room for the words over the peak
  }

  std::string draw() const {
    std::string out = "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 " + number(kWidth) + " " + number(kHeight) +
                      "\" role=\"img\" aria-labelledby=\"t d\">\n";
    out += "<title id=\"t\">" + escaped(text_.title) + "</title>\n<desc id=\"d\">" + escaped(description()) + "</desc>\n";
    out += "<style>" + std::string(kStyle) + "</style>\n";
    out += text_at(kLeft, 28, "h", text_.title);
    out += text_at(kLeft, 50, "s", "Each allocation and free in order. Filled: allocated, by what it is for. Line: reserved.");
    return out + axis() + areas() + reserved() + limit() + phases() + peak_mark() + legend() + "</svg>\n";
  }

 private:
  const TimelineRow& peak() const { return timeline_.rows[series_.peak_row]; }
  // A card far larger than the run would press the picture flat; the limit is then only told.
  bool near_limit() const { return free_ <= std::max(series_.highest_reserved, peak().counters.allocated) / 2 * 3; }
  int tenths(Bytes bytes) const { return static_cast<int>(std::lround(static_cast<double>(bytes) / static_cast<double>(top_) * kTenths)); }
  int y_of(Bytes bytes) const { return kBottom - (tenths(bytes) + 5) / 10; }

  std::string description() const {
    std::string text = "Allocated memory rises to " + mib(peak().counters.allocated) + " MiB at event " + with_commas(peak().event) +
                       ", in " + text_.peak + ". Reserved memory reaches " + mib(series_.highest_reserved) + " MiB; " + text_.card +
                       " has " + mib(free_) + " MiB free. At the peak:";
    const auto categories = series_.columns[series_.peak_column].categories;
    for (const Category category : kStack) {
      const Bytes bytes = categories[static_cast<std::size_t>(category)];
      if (bytes > 0) text += " " + words_of(name_of(category)) + " " + mib(bytes) + " MiB,";
    }
    text.back() = '.';
    return text + (timeline_.oom ? " Then memory runs out." : "");
  }

  std::string axis() const {
    std::string out;
    for (const Bytes mark : axis_marks(top_, 5)) {
      const int y = y_of(mark);
      out += "<path class=\"g\" d=\"M" + number(kLeft) + " " + number(y) + "h" + number(kPlotWidth) + "\"/>\n";
      out += text_at(kLeft - 8, y + 4, "s e", mark_text(mark, top_));
    }
    return out + text_at(kLeft - 8, kTop - 8, "s e", mark_unit(top_));
  }

  // Each area reaches from the ground to the top of its category; those further up are drawn first and so show only their own part.
  std::string areas() const {
    std::string out = ground();
    for (std::size_t level = std::size(kStack); level-- > 0;) {
      Steps steps;
      bool any = false;
      for (const PlotColumn& column : series_.columns) {
        Bytes sum = 0;
        for (std::size_t i = 0; i <= level; ++i) sum += column.categories[static_cast<std::size_t>(kStack[i])];
        any = any || column.categories[static_cast<std::size_t>(kStack[level])] > 0;
        steps.to(tenths(sum));
      }
      if (any) out += "<path class=\"c" + number(static_cast<int>(kStack[level])) + "\" d=\"M0 0" + steps.text() + "V0z\"/>\n";
    }
    return out + "</g>\n";
  }

  std::string reserved() const {
    const int start = tenths(series_.columns.front().reserved);
    Steps steps(start);
    for (const PlotColumn& column : series_.columns) steps.to(tenths(column.reserved));
    const int y = y_of(series_.columns.back().reserved);
    return ground() + "<path class=\"r\" d=\"M0 " + number(start) + steps.text() + "\"/>\n</g>\n" +
           text_at(kLeft + kPlotWidth - 4, y + 18, "e", "reserved " + mib(series_.highest_reserved) + " MiB");
  }

  static std::string ground() { return "<g transform=\"translate(" + number(kLeft) + " " + number(kBottom) + ") scale(1 -.1)\">\n"; }

  std::string limit() const {
    const std::string words = "free on " + text_.card + ": " + mib(free_) + " MiB";
    if (!near_limit()) return text_at(kLeft + kPlotWidth, kTop - 8, "s e", words + " (beyond the picture)");
    const int y = y_of(free_);
    return "<path class=\"l\" d=\"M" + number(kLeft) + " " + number(y) + "h" + number(kPlotWidth) + "\"/>\n" +
           text_at(kLeft + kPlotWidth, y - 6, "lt e", words);
  }

  std::string phases() const {
    std::string out;
    for (const PhaseSpan& span : series_.phases) {
      const int begin = kLeft + static_cast<int>(span.begin);
      const int width = static_cast<int>(span.end - span.begin);
      out += "<path class=\"g\" d=\"M" + number(begin) + " " + number(kBottom) + "v8h" + number(width) + "v-8\"/>\n";
      const std::string name = words_of(name_of(span.phase));
      if (static_cast<int>(name.size()) * 6 <= width) out += text_at(begin + width / 2, kBottom + 24, "m", name);
    }
    if (timeline_.oom) out += text_at(kLeft + kPlotWidth, kBottom + 44, "lt e", "out of memory here");
    return out + text_at(kLeft, kBottom + 44, "s", with_commas(std::uint64_t{timeline_.rows.size()}) + " allocations and frees");
  }

  std::string peak_mark() const {
    const int x = kLeft + static_cast<int>(series_.peak_column);
    const int y = y_of(peak().counters.allocated);
    const bool right = x < kLeft + kPlotWidth / 2;
    const std::string size = "peak " + mib(peak().counters.allocated) + " MiB";
    std::string out = "<circle class=\"p\" cx=\"" + number(x) + "\" cy=\"" + number(y) + "\" r=\"4\"/>\n";
    // On the paper's colour, so that the words can be read over lines and areas.
    const char* halo = "\" style=\"paint-order:stroke;stroke:var(--paper);stroke-width:4px\">";
    const std::string at = "<text x=\"" + number(right ? x + 10 : x - 10) + (right ? "\" class=\"a" : "\" class=\"e") + "\" y=\"";
    out += at + number(y + 5) + halo + escaped(size) + "</text>\n";
    out += at + number(y + 21) + halo + escaped(text_.peak) + "</text>\n";
    return out;
  }

  std::string legend() const {
    const int x = kLeft + kPlotWidth + 16;
    int y = kTop + 4;
    std::string out = text_at(x, y, "s", "at the peak, MiB");
    const auto categories = series_.columns[series_.peak_column].categories;
    for (std::size_t level = std::size(kStack); level-- > 0;) {  // in the order of the areas, from above
      const Category category = kStack[level];
      const Bytes at_peak = categories[static_cast<std::size_t>(category)];
      const bool any = std::any_of(series_.columns.begin(), series_.columns.end(),
                                   [&](const PlotColumn& column) { return column.categories[static_cast<std::size_t>(category)] >= MiB; });
      if (!any) continue;
      y += 22;
      out += "<rect class=\"c" + number(static_cast<int>(category)) + "\" x=\"" + number(x) + "\" y=\"" + number(y - 11) +
             "\" width=\"12\" height=\"12\"/>\n";
      out += text_at(x + 18, y, "", words_of(name_of(category)));
      out += text_at(kWidth - 8, y, "s e", mib(at_peak));
    }
    return out;
  }

  const Timeline& timeline_;
  Bytes free_;
  const SvgText& text_;
  PlotSeries series_;
  Bytes top_ = 1;
};

}  // namespace

std::string svg_picture(const Timeline& timeline, Bytes free, const SvgText& text) { return Picture(timeline, free, text).draw(); }

}  // namespace whatfits::cli
