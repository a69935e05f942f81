#include "commands/time.h"

#include <cstdio>

#include "commands/views.h"
#include "text/units.h"
#include "whatfits/presets.h"

namespace whatfits::cli {
namespace {

std::string figure(const char* format, double n) {
  char text[48];
  std::snprintf(text, sizeof text, format, n);
  return text;
}

// In the unit of the larger one: "79 to 139 ms", "2.7 to 4.7 hours".
std::string span(double low_seconds, double high_seconds) {
  struct Unit {
    double seconds;
    const char* name;
  };
  constexpr Unit kUnits[] = {{31557600, "years"}, {86400, "days"}, {3600, "hours"}, {60, "minutes"}, {1, "s"}, {1e-3, "ms"}};
  for (const Unit& unit : kUnits) {
    if (high_seconds < unit.seconds && unit.seconds > 1e-3) continue;
    const double high = high_seconds / unit.seconds;
    const char* const format = high < 10 ? "%.1f" : "%.0f";
    return figure(format, low_seconds / unit.seconds) + " to " + figure(format, high) + " " + unit.name;
  }
  return {};
}

std::string with_unit(double n) {
  constexpr const char* kPrefixes[] = {"", "k", "M", "G", "T", "P", "E"};
  int power = 0;
  for (; n >= 1000 && power < 6; ++power) n /= 1000;
  return figure(n < 10 ? "%.2f " : "%.1f ", n) + kPrefixes[power];
}

}  // namespace

std::string about(std::uint64_t n) {
  std::uint64_t unit = 1;
  while (n / unit >= 1000) unit *= 10;
  return with_commas((n + unit / 2) / unit * unit);
}

std::uint64_t tokens_of(const std::optional<std::string>& flag) {
  return flag ? whole_number("--tokens", *flag, 1'000'000'000'000'000) : 1'000'000'000;
}

void time_section(const std::optional<Pace>& pace, std::uint64_t tokens, Session& session) {
  if (!pace) return;
  const Style& style = session.style;
  session.line();
  const std::string work = "A step is " + with_unit(static_cast<double>(pace->flops)) + "FLOP of matrix products (6·N + 12·L·C·T says " +
                           with_unit(static_cast<double>(pace->flops_by_rule)) + "FLOP)" +
                           (pace->flops_again > 0 ? ", " + percent(pace->flops_again, pace->flops) + " of it recomputation" : "") + ", " +
                           with_unit(static_cast<double>(pace->bytes)) + "B moved by other operators, " +
                           with_unit(static_cast<double>(pace->optimizer_bytes)) + "B of it by the optimizer, and " +
                           with_commas(pace->operators) + " operators to launch.";
  if (!pace->unknown.empty()) {
    session.line(style.bold("Time") + ": not known, as " + pace->unknown);
    session.paragraph(style.dim(work), "  ");
  } else {
    const double low = static_cast<double>(pace->fastest_us) / 1e6;
    const double high = static_cast<double>(pace->slowest_us) / 1e6;
    const double steps = static_cast<double>(tokens) / static_cast<double>(pace->tokens_of_all());
    session.line(style.bold("Time") + ": " + span(low, high) + " a step of " + with_commas(pace->tokens_of_all()) + " tokens" +
                 (pace->ranks > 1 ? " on " + with_commas(pace->ranks) + " cards" : "") + ", " +
                 about(pace->tokens_per_second(pace->slowest_us)) + " to " + about(pace->tokens_per_second(pace->fastest_us)) +
                 " tokens a second");
    session.line("  " + with_commas(tokens) + " tokens: " + span(low * steps, high * steps));
    session.paragraph(style.dim(work + " Assumed: " + assumed_shares() + "."), "  ");
  }
  for (const MeasuredPace& row : pace->measured) {
    session.line(style.dim("  measured by others: " + with_commas(row.tokens_per_second) + " tokens/s, " + row.model + ", " + row.how +
                           ", " + with_commas(row.batch) + " × " + with_commas(row.seq_len) + " on " + row.device));
  }
}

}  // namespace whatfits::cli
