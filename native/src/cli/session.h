// Where a command writes and what it knows of the terminal. Output is collected and written at the end, so that a failure writes
// nothing.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "text/style.h"

namespace whatfits::cli {

struct Session {
  Style style;
  std::size_t width = 100;     ///< columns of the terminal; 100 where there is none
  bool show_progress = false;  ///< standard error is a terminal
  std::string out;             ///< for standard output

  void line(std::string_view text = "") { (out += text) += '\n'; }
  /// A sentence or more, wrapped to the width (at most 110, for the eye).
  void paragraph(std::string_view text, std::string_view indent = "");

  /// Looks at the streams and at NO_COLOR, TERM and COLUMNS.
  static Session of_process();
};

/// One line on standard error that says what takes long, wiped when done. Silent where nobody watches.
class Progress {
 public:
  Progress(const Session& session, std::string what);
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;
  ~Progress();
  void update(std::size_t done, std::size_t total);

 private:
  void show(std::string_view text);
  bool shown_;
  std::string what_;
  std::size_t percent_ = 101;
};

}  // namespace whatfits::cli
