// What a sweep looks like as a table and as a picture.
#include <algorithm>
#include <sstream>

#include "analysis/replay.h"
#include "measure/sweep.h"

namespace whatfits::native {

namespace {

const Json* counters_of(const Json& row) { return row.contains("fixture") ? &row["fixture"]["counters"] : nullptr; }

Counters peak_of(const Json& row) {
  const Json* const counters = counters_of(row);
  if (!counters) return {};
  return {(*counters)["peak"]["allocated"].get<Bytes>(), (*counters)["peak"]["reserved"].get<Bytes>()};
}

double in_mib(Bytes bytes) { return static_cast<double>(bytes) / static_cast<double>(MiB); }

}  // namespace

Json sweep_json(const std::vector<Json>& rows) {
  Json list = Json::array();
  for (const Json& row : rows) list.push_back(row);
  return {{"rows", std::move(list)}};
}

std::string sweep_csv(const std::vector<Json>& rows) {
  std::ostringstream csv;
  csv << "batch,seq_len,status,peak_allocated_bytes,peak_reserved_bytes,predicted_reserved_bytes,peak_rss_bytes,equals_prediction,loss,"
         "tokens_per_second\n";
  for (const Json& row : rows) {
    csv << row["batch"] << ',' << row["seq_len"] << ',' << row["status"].get<std::string>() << ',';
    if (!counters_of(row)) {
      csv << ",,,,,,\n";
      continue;
    }
    const Json& fixture = row["fixture"];
    const Counters peak = peak_of(row);
    csv << peak.allocated << ',' << peak.reserved << ',' << fixture["predicted_peak"]["reserved"] << ',' << fixture["host"]["peak_rss"]
        << ',' << fixture["equals_prediction"] << ',';
    const Json& steps = fixture["training"]["steps"];
    if (steps.empty()) {
      csv << ",\n";
    } else {
      csv << steps.back()["loss"] << ',' << steps.back()["tokens_per_second"] << '\n';
    }
  }
  return csv.str();
}

std::string sweep_svg(const std::vector<Json>& rows, const Config& config) {
  constexpr double kLeft = 70, kTop = 30, kWidth = 560, kHeight = 300;
  const double limit = static_cast<double>(config.device.free_mib);
  std::int64_t first = rows.front()["batch"].get<std::int64_t>();
  std::int64_t last = rows.back()["batch"].get<std::int64_t>();
  std::vector<Counters> predicted;
  double top = 1;
  for (const Json& row : rows) {
    Config one = config;
    one.batch = row["batch"].get<std::int64_t>();
    predicted.push_back(replay(record(one), one, {.steps = static_cast<int>(config.steps)}).peak);
    top = std::max({top, in_mib(peak_of(row).reserved), in_mib(predicted.back().reserved)});
  }
  const bool shows_limit = limit < 2 * top;  // a card far larger than the runs would press them flat
  if (shows_limit) top = std::max(top, limit);
  top *= 1.08;
  const double span = last > first ? static_cast<double>(last - first) : 1;
  const auto x = [&](std::int64_t batch) { return kLeft + kWidth * (last > first ? static_cast<double>(batch - first) / span : 0.5); };
  const auto y = [&](double mib) { return kTop + kHeight * (1 - mib / top); };

  std::ostringstream svg;
  svg << R"(<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 660 400" font-family="sans-serif" font-size="12">)" << '\n'
      << R"(<rect width="660" height="400" fill="white"/>)" << '\n';
  for (int i = 0; i <= 4; ++i) {
    const double value = top * i / 4;
    svg << "<line x1=\"" << kLeft << "\" x2=\"" << kLeft + kWidth << "\" y1=\"" << y(value) << "\" y2=\"" << y(value)
        << "\" stroke=\"#ddd\"/><text x=\"" << kLeft - 8 << "\" y=\"" << y(value) + 4 << "\" text-anchor=\"end\">"
        << static_cast<std::int64_t>(value) << "</text>\n";
  }
  svg << "<text x=\"" << kLeft << "\" y=\"18\">peak, MiB</text>\n";
  if (shows_limit) {
    svg << "<line x1=\"" << kLeft << "\" x2=\"" << kLeft + kWidth << "\" y1=\"" << y(limit) << "\" y2=\"" << y(limit)
        << "\" stroke=\"#b00\" stroke-dasharray=\"6 4\"/><text x=\"" << kLeft + 4 << "\" y=\"" << y(limit) - 5
        << "\" fill=\"#b00\">free on the card</text>\n";
  }
  svg << "<polyline fill=\"none\" stroke=\"#888\" stroke-dasharray=\"3 3\" points=\"";
  for (std::size_t i = 0; i < rows.size(); ++i)
    svg << x(rows[i]["batch"].get<std::int64_t>()) << ',' << y(in_mib(predicted[i].reserved)) << ' ';
  svg << "\"/>\n";
  for (const Json& row : rows) {
    const auto batch = row["batch"].get<std::int64_t>();
    const std::string status = row["status"].get<std::string>();
    svg << "<text x=\"" << x(batch) << "\" y=\"" << kTop + kHeight + 18 << "\" text-anchor=\"middle\">" << batch << "</text>\n";
    if (!counters_of(row)) {
      svg << "<text x=\"" << x(batch) << "\" y=\"" << kTop + kHeight - 6 << "\" text-anchor=\"middle\" fill=\"#b00\">" << status
          << "</text>\n";
      continue;
    }
    const Counters peak = peak_of(row);
    const char* const fill = status == "done" ? "#1565c0" : "#b00";
    svg << "<circle r=\"4\" cx=\"" << x(batch) << "\" cy=\"" << y(in_mib(peak.reserved)) << "\" fill=\"" << fill << "\"><title>batch "
        << batch << ": reserved " << peak.reserved << " bytes, " << status << "</title></circle>\n"
        << "<circle r=\"4\" cx=\"" << x(batch) << "\" cy=\"" << y(in_mib(peak.allocated)) << "\" fill=\"white\" stroke=\"" << fill
        << "\"><title>batch " << batch << ": allocated " << peak.allocated << " bytes</title></circle>\n";
  }
  svg << "<text x=\"" << kLeft << "\" y=\"" << kTop + kHeight + 44
      << "\">batch. Filled: reserved; hollow: allocated; dashed: predicted reserved; red: out of memory</text>\n</svg>\n";
  return svg.str();
}

}  // namespace whatfits::native
