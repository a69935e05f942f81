// How wrong is it: every measurement that is here, by group, with the prediction's errors; and other tools' formulas on the same rows.
#include "accuracy/accuracy.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "accuracy/others.h"
#include "accuracy/peers.h"
#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/published.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/estimate.h"

namespace whatfits::cli {
namespace {

using nlohmann::ordered_json;

struct Group {
  std::set<std::string> runs, wrong_runs;
  std::uint64_t counters = 0, exact = 0, within = 0, wrong = 0;
  double worst = 0;  ///< percent, of the wrong ones
};

std::map<std::string, Group> by_group(const std::vector<accuracy::Row>& rows) {
  std::map<std::string, Group> groups;
  for (const accuracy::Row& row : rows) {
    Group& group = groups[row.group];
    group.runs.insert(row.fixture);
    ++group.counters;
    if (row.predicted == row.measured) {
      ++group.exact;
    } else if (row.agrees()) {
      ++group.within;
    } else {
      ++group.wrong;
      group.wrong_runs.insert(row.fixture);
      if (row.predicted && row.measured && *row.measured != 0)
        group.worst = std::max(group.worst, 100 * std::abs(static_cast<double>(row.error()) / static_cast<double>(*row.measured)));
    }
  }
  return groups;
}

/// A way to predict a peak, on many rows: predicted by measured.
struct Ratios {
  std::string name, formula;
  std::vector<double> all;                 ///< ascending
  std::map<std::int64_t, double> printed;  ///< of the published sweep, by batch
  double median() const { return all[all.size() / 2]; }
};

std::vector<Ratios> ratios(const std::vector<accuracy::MeasuredPeak>& peaks) {
  std::vector<Ratios> list{{"whatfits", "replay", {}, {}}};
  for (const accuracy::Peer& peer : accuracy::peers()) list.push_back({peer.name, peer.formula, {}, {}});
  for (const accuracy::MeasuredPeak& peak : peaks) {
    const auto add = [&](Ratios& to, double predicted) {
      const double ratio = predicted / static_cast<double>(peak.allocated);
      to.all.push_back(ratio);
      if (peak.fixture.starts_with("published/")) to.printed[peak.config.batch] = ratio;
    };
    add(list.front(), static_cast<double>(estimate(peak.config).trace.peak.allocated));
    for (std::size_t i = 0; i < accuracy::peers().size(); ++i) add(list[i + 1], accuracy::peers()[i].bytes(peak.config));
  }
  for (Ratios& one : list) std::sort(one.all.begin(), one.all.end());
  return list;
}

std::string ratio_text(double value) {
  const auto thousandths = static_cast<std::int64_t>(value * 1000 + 0.5);
  const std::string digits = std::to_string(thousandths % 1000);
  return std::to_string(thousandths / 1000) + "." + std::string(3 - digits.size(), '0') + digits;
}

/// Of percents, with two digits.
std::string percent_text(double value) {
  const auto hundredths = static_cast<std::int64_t>(value * 100 + 0.5);
  const std::string digits = std::to_string(hundredths % 100);
  return std::to_string(hundredths / 100) + "." + std::string(2 - digits.size(), '0') + digits + " %";
}

ordered_json json_of(const std::map<std::string, Group>& groups, const std::vector<Ratios>& tools,
                     const std::map<std::string, std::string>& gaps, std::size_t rows, const accuracy::Others& others) {
  ordered_json out;
  out["groups"] = ordered_json::array();
  for (const auto& [name, group] : groups) {
    out["groups"].push_back({{"group", name},
                             {"runs", group.runs.size()},
                             {"counters", group.counters},
                             {"exact", group.exact},
                             {"within_tolerance", group.within},
                             {"wrong", group.wrong},
                             {"wrong_runs", group.wrong_runs},
                             {"worst_error_percent", group.worst}});
  }
  out["formulas"] = {{"rows", rows}, {"tools", ordered_json::array()}};
  for (const Ratios& tool : tools) {
    ordered_json printed = ordered_json::object();
    for (const auto& [batch, ratio] : tool.printed) printed[std::to_string(batch)] = ratio;
    out["formulas"]["tools"].push_back({{"name", tool.name},
                                        {"formula", tool.formula},
                                        {"published_by_batch", printed},
                                        {"median", tool.median()},
                                        {"least", tool.all.front()},
                                        {"most", tool.all.back()}});
  }
  out["known_inexact"] = gaps;
  out["others"] = published_json(others);
  return out;
}

void groups_section(const std::map<std::string, Group>& groups, Session& session) {
  using Align = Table::Align;
  Table table({{"measured", Align::left},
               {"runs", Align::right},
               {"counters", Align::right},
               {"exact", Align::right},
               {"within printed digits", Align::right},
               {"wrong", Align::right},
               {"worst error", Align::right}});
  for (const auto& [name, group] : groups) {
    table.row({name, with_commas(std::uint64_t{group.runs.size()}), with_commas(group.counters), with_commas(group.exact),
               group.within > 0 ? with_commas(group.within) : "", group.wrong > 0 ? with_commas(group.wrong) : "",
               group.wrong > 0 ? percent_text(group.worst) : ""});
  }
  session.out += table.text(2);
}

void formulas_section(const std::vector<Ratios>& tools, std::size_t rows, Session& session) {
  using Align = Table::Align;
  session.line();
  session.line(session.style.bold("Other tools' formulas on the same rows: predicted by measured, of the peak's allocated bytes"));
  session.paragraph(
      "The columns by batch are the published sweep of GPT-2 small on an A40; median, least and most are over " +
          with_commas(std::uint64_t{rows}) +
          " measured runs of GPT-2 from scratch in fp32 with eager attention and AdamW, of many shapes, for which each formula was meant "
          "or is used. No formula says what PyTorch reserves, or which batch fails.",
      "  ");
  std::vector<Table::Column> columns{{"", Align::left}};
  for (const auto& [batch, ratio] : tools.front().printed) columns.push_back({"batch " + std::to_string(batch), Align::right});
  for (const char* name : {"median", "least", "most"}) columns.push_back({name, Align::right});
  columns.push_back({"formula", Align::left});
  Table table(std::move(columns));
  for (const Ratios& tool : tools) {
    std::vector<std::string> cells{tool.name};
    for (const auto& [batch, ratio] : tool.printed) cells.push_back(ratio_text(ratio));
    for (const double value : {tool.median(), tool.all.front(), tool.all.back()}) cells.push_back(ratio_text(value));
    cells.push_back(tool.formula);
    table.row(std::move(cells));
  }
  session.out += table.text(2);
}

}  // namespace

int run_accuracy(const Arguments& arguments, Session& session) {
  const std::string folder = arguments.fixtures.value_or(WHATFITS_FIXTURES);
  std::vector<accuracy::Row> rows;
  std::vector<accuracy::MeasuredPeak> peaks;
  std::map<std::string, std::string> gaps;
  accuracy::Others others;
  try {
    const Progress progress(session, "predicting what was measured");
    rows = accuracy::compare_all(folder);
    peaks = accuracy::plain_peaks(folder);
    gaps = accuracy::known_inexact(folder);
    others = accuracy::compare_others(folder);
  } catch (const std::exception& error) {
    throw Failure("--fixtures: " + printable(folder) + ": is no folder of fixtures: " + printable(error.what()));
  }
  const std::map<std::string, Group> groups = by_group(rows);
  const std::vector<Ratios> tools = ratios(peaks);
  bool news = false;
  for (const auto& [name, group] : groups) {
    for (const std::string& run : group.wrong_runs) news = news || !gaps.contains(run.substr(run.find(": ") + 2));
  }
  const int status = news ? exit_status::does_not_fit : exit_status::ok;
  if (arguments.json) {
    print_json(json_of(groups, tools, gaps, peaks.size(), others), session);
    return status;
  }
  std::uint64_t exact = 0;
  std::uint64_t runs = 0;
  for (const auto& [name, group] : groups) {
    exact += group.exact;
    runs += group.runs.size();
  }
  session.line(session.style.bold(with_commas(exact) + " of " + with_commas(std::uint64_t{rows.size()}) + " counters of " +
                                  with_commas(runs) + " measurements are predicted to the byte"));
  session.line();
  groups_section(groups, session);
  formulas_section(tools, peaks.size(), session);
  published_section(others, session);
  session.line();
  session.line(session.style.bold("Not right yet, and not compared"));
  for (const auto& [name, group] : groups) {
    for (const std::string& run : group.wrong_runs) {
      const auto cause = gaps.find(run.substr(run.find(": ") + 2));
      session.paragraph(run + ": " + (cause != gaps.end() ? cause->second : "not known before: something has changed"), "  ");
    }
  }
  uncovered_lines(others, session);
  session.paragraph(
      "No measurement is of several real cards (torch/parallel is one rank of a group that sends nothing), of another PyTorch "
      "than 2.6 (the published sweep: 2.5.1; the runs of others: 2.4.1, or not stated), or of torch.compile.",
      "  ");
  return status;
}

}  // namespace whatfits::cli
