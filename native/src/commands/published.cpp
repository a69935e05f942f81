#include "commands/published.h"

#include <cmath>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "text/table.h"
#include "text/units.h"

namespace whatfits::cli {
namespace {

using accuracy::Others;
using accuracy::OthersReading;
using accuracy::OthersRow;
using accuracy::Spread;
using nlohmann::ordered_json;

const char* verdict_word(std::int64_t value) { return value == 1 ? "fits" : "oom"; }

/// "-0.0003 %", "12.31 %": four digits after the point below a tenth of a percent, else two.
std::string error_text(double percent) {
  const bool fine = std::abs(percent) < 0.1;
  const auto digits = static_cast<std::size_t>(fine ? 4 : 2);
  const auto scaled = static_cast<std::int64_t>(std::abs(percent) * (fine ? 10000 : 100) + 0.5);
  const std::int64_t one = fine ? 10000 : 100;
  const std::string rest = std::to_string(scaled % one);
  return (percent < 0 && scaled > 0 ? "-" : "") + std::to_string(scaled / one) + "." + std::string(digits - rest.size(), '0') + rest + " %";
}

std::vector<std::string> groups_of(const Others& others) {
  std::set<std::string> groups;
  for (const OthersRow& row : others.rows) {
    if (row.readings.front().kind == OthersReading::Kind::pytorch) groups.insert(row.group);
  }
  return {groups.begin(), groups.end()};
}

void readings_table(const Others& others, OthersReading::Kind kind, Session& session) {
  using Align = Table::Align;
  Table table({{"run", Align::left},
               {"grade", Align::left},
               {"counter", Align::left},
               {"measured", Align::right},
               {"predicted", Align::right},
               {"error", Align::right}});
  for (const OthersRow& row : others.rows) {
    for (const OthersReading& one : row.readings) {
      if (one.kind != kind) continue;
      if (kind == OthersReading::Kind::verdict) {
        table.row({row.id, row.grade, one.value, verdict_word(one.measured), verdict_word(one.predicted),
                   one.measured == one.predicted ? "" : "wrong"});
      } else {
        table.row({row.id, row.grade, one.value, mib(static_cast<Bytes>(one.measured)), mib(static_cast<Bytes>(one.predicted)),
                   error_text(one.error_percent())});
      }
    }
  }
  session.out += table.text(2);
}

void spread_table(const Others& others, Session& session) {
  using Align = Table::Align;
  Table table(
      {{"grade A by group", Align::left}, {"runs", Align::right}, {"median error", Align::right}, {"90th percentile", Align::right}});
  const auto line = [&](const std::string& name, const Spread& s) {
    if (s.count > 0) table.row({name, with_commas(std::uint64_t{s.count}), error_text(s.median), error_text(s.ninetieth)});
  };
  for (const std::string& group : groups_of(others)) line(group, spread_of(others, "A", group));
  table.rule();
  line("all", spread_of(others, "A", ""));
  session.out += table.text(2);
}

}  // namespace

ordered_json published_json(const Others& others) {
  ordered_json out{{"published", others.published}, {"rows", ordered_json::array()}, {"errors", ordered_json::array()}};
  for (const OthersRow& row : others.rows) {
    ordered_json readings = ordered_json::array();
    for (const OthersReading& one : row.readings) {
      if (one.kind == OthersReading::Kind::verdict) {
        readings.push_back({{"counter", one.counter},
                            {"value", one.value},
                            {"predicted", verdict_word(one.predicted)},
                            {"measured", verdict_word(one.measured)}});
      } else {
        readings.push_back({{"counter", one.counter},
                            {"value", one.value},
                            {"predicted", one.predicted},
                            {"measured", one.measured},
                            {"error_percent", one.error_percent()}});
      }
    }
    out["rows"].push_back({{"id", row.id},
                           {"grade", row.grade},
                           {"group", row.group},
                           {"source", row.source},
                           {"assumed", row.assumed},
                           {"why", row.why.empty() ? ordered_json() : ordered_json(row.why)},
                           {"readings", std::move(readings)}});
  }
  const auto errors = [&](const std::string& group, const Spread& s) {
    if (s.count == 0) return;
    out["errors"].push_back({{"grade", "A"},
                             {"group", group.empty() ? ordered_json() : ordered_json(group)},
                             {"rows", s.count},
                             {"median_percent", s.median},
                             {"ninetieth_percent", s.ninetieth}});
  };
  for (const std::string& group : groups_of(others)) errors(group, spread_of(others, "A", group));
  errors("", spread_of(others, "A", ""));
  out["not_covered"] = ordered_json::array();
  for (const Others::Reason& reason : others.not_covered) {
    const auto a = reason.by_grade.find("A");
    out["not_covered"].push_back(
        {{"why", reason.why}, {"rows", reason.rows}, {"grade_a", a == reason.by_grade.end() ? std::size_t{0} : a->second}});
  }
  return out;
}

void published_section(const Others& others, Session& session) {
  session.line();
  session.line(session.style.bold("Runs of others on real cards: what PyTorch counted, in MiB, and the same run predicted"));
  session.paragraph(
      "A row of grade A states enough to be predicted within 5 %. What its source does not say is the framework's default; --json lists "
      "what was assumed of each. The first counter of a run is the one that counts below.",
      "  ");
  readings_table(others, OthersReading::Kind::pytorch, session);
  session.line();
  spread_table(others, session);
  for (const OthersRow& row : others.rows) {
    if (!row.why.empty()) session.paragraph(row.id + ": " + row.why, "  ");
  }
  session.line();
  session.line(session.style.bold("The same runs by nvidia-smi, in MiB: with the context, which is a figure of the card"));
  readings_table(others, OthersReading::Kind::nvidia_smi, session);
  session.paragraph("Rows of Apple's MLX count by MLX, which is not replayed.", "  ");
  session.line();
  session.line(session.style.bold("Runs that were published for running out of memory"));
  readings_table(others, OthersReading::Kind::verdict, session);
}

void uncovered_lines(const Others& others, Session& session) {
  std::size_t rows = 0;
  std::size_t of_a = 0;
  for (const Others::Reason& reason : others.not_covered) {
    rows += reason.rows;
    if (const auto a = reason.by_grade.find("A"); a != reason.by_grade.end()) of_a += a->second;
  }
  session.paragraph(with_commas(std::uint64_t{rows}) + " of " + with_commas(std::uint64_t{others.published}) +
                        " runs that others published have no prediction, " + with_commas(std::uint64_t{of_a}) + " of them of grade A:",
                    "  ");
  for (const Others::Reason& reason : others.not_covered) {
    const auto a = reason.by_grade.find("A");
    session.paragraph(with_commas(std::uint64_t{reason.rows}) +
                          (a == reason.by_grade.end() ? "" : " (A: " + std::to_string(a->second) + ")") + "  " + reason.why,
                      "    ");
  }
}

}  // namespace whatfits::cli
