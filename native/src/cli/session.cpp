#include "cli/session.h"

#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "text/text.h"

namespace whatfits::cli {
namespace {

std::size_t terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0) return size.ws_col;
  return 100;
}

}  // namespace

void Session::paragraph(std::string_view text, std::string_view indent) {
  (out += indent) += wrapped(text, std::min<std::size_t>(width, 110), indent);
  out += '\n';
}

Session Session::of_process() {
  Session session;
  const bool terminal = ::isatty(STDOUT_FILENO) != 0;
  const char* no_colour = std::getenv("NO_COLOR");  // no-color.org: any value but the empty one
  const char* kind = std::getenv("TERM");
  const bool dumb = kind == nullptr || std::string_view(kind) == "dumb";
  session.style = Style(terminal && !dumb && (no_colour == nullptr || *no_colour == '\0'));
  if (terminal) session.width = std::clamp<std::size_t>(terminal_width(), 40, 240);
  session.show_progress = ::isatty(STDERR_FILENO) != 0 && !dumb;
  return session;
}

Progress::Progress(const Session& session, std::string what) : shown_(session.show_progress), what_(std::move(what)) { show(what_ + " …"); }

Progress::~Progress() {
  if (shown_) std::fputs("\r\x1b[K", stderr);
}

void Progress::update(std::size_t done, std::size_t total) {
  const std::size_t now = total == 0 ? 100 : done * 100 / total;
  if (now == percent_) return;
  percent_ = now;
  show(what_ + " … " + std::to_string(now) + " %");
}

void Progress::show(std::string_view text) {
  if (!shown_) return;
  std::fprintf(stderr, "\r%.*s\x1b[K", static_cast<int>(text.size()), text.data());
  std::fflush(stderr);
}

}  // namespace whatfits::cli
