// What measured runs say of a card that no replay can know, as the request's `calibration`.
#include <algorithm>
#include <limits>
#include <optional>
#include <stdexcept>
#include <vector>

#include "accuracy/published_sweep.h"
#include "cli/failure.h"
#include "cli/files.h"
#include "commands/commands.h"
#include "commands/read_snapshot.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/compare.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

using nlohmann::json;

/// What one file says. Absent: it does not say.
struct Measured {
  std::string name;               ///< the file's, without folders
  std::string what;               ///< "a snapshot", "a run of whatfits measure", "batch 16 of a published sweep"
  std::optional<std::string> on;  ///< card
  std::optional<Bytes> free;      ///< what PyTorch could have had
  std::optional<std::int64_t> extra;
  Counters peak;    ///< 0: not known
  std::string how;  ///< where `free` was read
};

bool is_json(const std::string& path) { return path.size() > 5 && path.compare(path.size() - 5, 5, ".json") == 0; }

/// A failure says what the process could have had: what it held, and what the device still had to give.
Measured of_snapshot(const std::string& path, const std::optional<Config>& config, const Session& session) {
  const snapshot::Snapshot recording = read_snapshot(path, {}, session);
  const std::size_t device = device_of(Arguments(), recording);
  const snapshot::MeasuredRun run = snapshot::follow(recording, device);
  Measured out;
  out.what = "a snapshot";
  for (const snapshot::Failure& failure : run.failures) {
    out.free = failure.counters.reserved + failure.device_free;  // the last one: others may have come and gone
    out.how = "where memory ran out it held " + size_text(failure.counters.reserved) + " and the device had " +
              size_text(failure.device_free) + " left";
  }
  Bytes reserved = 0;
  for (const snapshot::MeasuredPoint& point : run.points) reserved = std::max(reserved, point.reserved);
  if (run.peak != snapshot::kNever) out.peak = {run.points[run.peak].allocated, reserved};
  if (!config || !run.failures.empty()) return out;
  const Progress progress(session, "laying it over the prediction");
  const auto comparison = snapshot::compare(recording, run, device, *config);
  if (!comparison) {
    throw Failure(printable(path) + ": has too little in common with " + run_words(*config) +
                  " to say what it holds beyond the prediction: give its own request, or none");
  }
  const Counters& measured = comparison->measured_peak;
  const Counters& predicted = comparison->predicted_peak;
  out.extra = static_cast<std::int64_t>(measured.allocated) - static_cast<std::int64_t>(predicted.allocated);
  return out;
}

/// fixtures/schema.json
Measured of_fixture(const std::string& name, const json& fixture) {
  Measured out;
  out.what = "a run of whatfits measure";
  try {
    const json& counters = fixture.at("counters").at("peak");
    const json& predicted = fixture.at("predicted_peak");
    out.peak = {counters.at("allocated"), counters.at("reserved")};
    if (fixture.at("device").at("on") != "cuda") return out;
    out.on = fixture.at("device").at("name").get<std::string>();
    out.extra = static_cast<std::int64_t>(out.peak.allocated) - predicted.at("allocated").get<std::int64_t>();
    const json& card = fixture.at("card");
    std::int64_t taken = 0;
    for (const char* part : {"context", "cublas", "kernels", "scratch", "residual"})
      taken += std::max<std::int64_t>(0, card.at("reconciliation").at(part).get<std::int64_t>());
    const auto total = card.at("total").get<std::int64_t>();
    if (taken < total) out.free = static_cast<Bytes>(total - taken);
    out.how = "the card's total less context, libraries and what was not accounted for, " + size_text(static_cast<Bytes>(taken));
  } catch (const json::exception&) {
    throw Failure(name + ": does not follow the schema of what whatfits measure writes (fixtures/schema.json)");
  }
  return out;
}

/// Each run that ended. What was held beyond the prediction is nothing where the printed digits hide the difference.
std::vector<Measured> of_sweep(const std::string& name, const json& file) {
  std::vector<Measured> out;
  try {
    const accuracy::Sweep sweep = accuracy::read_sweep(file);
    for (const accuracy::SweepRun& run : sweep.runs) {
      Measured m;
      m.what = run.name + " of a published sweep";
      m.on = sweep.card;
      if (sweep.free && *sweep.free > 0) {
        m.free = static_cast<Bytes>(*sweep.free);
        m.how = "what the source printed as free on the card before the run";
      }
      if (run.allocated) {
        m.peak.allocated = static_cast<Bytes>(run.allocated->bytes);
        const std::int64_t beyond = run.allocated->bytes - static_cast<std::int64_t>(estimate(run.config).trace.peak.allocated);
        m.extra = beyond < -run.allocated->halfwidth || beyond > run.allocated->halfwidth ? beyond : 0;
      }
      if (run.reserved) m.peak.reserved = static_cast<Bytes>(run.reserved->bytes);
      out.push_back(std::move(m));
    }
  } catch (const json::exception&) {
    throw Failure(name + ": is no sweep as fixtures/published/README.md describes it");
  } catch (const std::runtime_error& error) {
    throw Failure(name + ": " + printable(error.what()));
  }
  if (out.empty()) throw Failure(name + ": has no highest allocated or reserved level of a run among its figures");
  return out;
}

std::vector<Measured> of_json(const std::string& path) {
  const std::string name = printable(path);
  const json file = json::parse(read_text(path, std::size_t{64} << 20), nullptr, /*allow_exceptions=*/false);
  if (accuracy::is_sweep(file)) return of_sweep(name, file);
  if (file.is_object() && file.contains("schema") && file.at("schema") == "whatfits-fixture") return {of_fixture(name, file)};
  throw Failure(name +
                ": is neither what whatfits measure wrote (\"schema\": \"whatfits-fixture\") nor a published sweep (\"kind\": "
                "\"published\", with \"figures\")");
}

/// Nearest rank, of sorted values.
std::int64_t quantile(const std::vector<std::int64_t>& sorted, std::size_t percent) {
  return sorted[std::min(sorted.size() - 1, sorted.size() * percent / 100)];
}

std::int64_t mib_up(std::int64_t bytes) { return (bytes + static_cast<std::int64_t>(MiB) - 1) / static_cast<std::int64_t>(MiB); }

Json row_of(const Measured& m) {
  Json row{{"file", m.name}, {"what", m.what}};
  row["free_mib"] = m.free ? Json(*m.free / MiB) : Json(nullptr);
  if (m.free) row["free_from"] = m.how;
  row["extra_bytes"] = m.extra ? Json(*m.extra) : Json(nullptr);
  row["allocated"] = m.peak.allocated > 0 ? Json(m.peak.allocated) : Json(nullptr);
  row["reserved"] = m.peak.reserved > 0 ? Json(m.peak.reserved) : Json(nullptr);
  return row;
}

}  // namespace

int run_calibrate(const Arguments& arguments, Session& session) {
  if (arguments.measurements.empty())
    throw Failure(
        "FILES: name at least one snapshot of torch.cuda.memory._dump_snapshot(), what whatfits measure wrote, or a "
        "published sweep");
  std::optional<Config> config;
  const json request = arguments.request.flags.empty() ? json::object() : read_request(arguments.request);
  if (request.contains("model")) {
    config = checked(request);
    needs_replay(*config, "calibrate");
  }
  std::vector<Measured> all;
  std::string names;
  for (const std::string& path : arguments.measurements) {
    std::vector<Measured> runs;
    if (is_json(path))
      runs = of_json(path);
    else
      runs.push_back(of_snapshot(path, config, session));
    const std::string name = printable(path.substr(path.rfind('/') + 1));  // npos + 1 is 0
    names += (names.empty() ? "" : ", ") + name;
    for (Measured& m : runs) {
      m.name = name;
      if (!all.empty() && m.on && all.front().on && *m.on != *all.front().on)
        throw Failure(printable(path) + ": is of " + printable(*m.on) + ", the first of " + printable(*all.front().on) +
                      ": one card at a time");
      all.push_back(std::move(m));
    }
  }

  // The least that was free and the most that was extra: what must not be promised.
  std::optional<Bytes> free;
  std::optional<std::int64_t> extra;
  std::vector<std::int64_t> ratios;
  Json rows = Json::array();
  for (const Measured& m : all) {
    if (m.free && (!free || *m.free < *free)) free = m.free;
    if (m.extra && (!extra || *m.extra > *extra)) extra = m.extra;
    if (m.peak.allocated > 0 && m.peak.reserved > 0) ratios.push_back(static_cast<std::int64_t>(m.peak.reserved * 1000 / m.peak.allocated));
    rows.push_back(row_of(m));
  }
  std::sort(ratios.begin(), ratios.end());
  const std::size_t longest = 200;
  if (names.size() > longest) names = std::to_string(arguments.measurements.size()) + " files, " + all.front().name + " first";

  Json out{{"schema_version", 1}};
  if (config) out["device"] = config->device.name;
  if (!config && all.front().on) out["device"] = *all.front().on;
  if (free) out["free_mib"] = *free / MiB;
  out["extra_mib"] = extra && *extra > 0 ? mib_up(*extra) : 0;
  if (!ratios.empty() && quantile(ratios, 50) >= 1000 && quantile(ratios, 50) <= 10000) {
    out["reserved_per_mille"] = quantile(ratios, 50);
    out["reserved_per_mille_spread"] = {{"runs", ratios.size()}, {"tenth", quantile(ratios, 10)}, {"ninetieth", quantile(ratios, 90)}};
  }
  out["from"] = "measured: " + names;
  out["measurements"] = std::move(rows);
  const std::string text = out.dump(2) + "\n";
  if (arguments.calibrated) write_file(*arguments.calibrated, text);
  if (arguments.json || !arguments.calibrated) {
    session.out += text;
    return exit_status::ok;
  }
  session.line(free ? size_text(*free) + " were PyTorch's to have" +
                          (config ? "; the request's device has " + size_text(static_cast<Bytes>(config->device.free_mib) * MiB) : "")
                    : "What was free is not known: only a failure in a snapshot says it, or a run of whatfits measure on a card");
  session.line(extra ? signed_mib(*extra) + " MiB at the peak beyond the prediction, at most"
                     : "What was held beyond the prediction is not known: give the run's request (--model, --batch, …)");
  if (!ratios.empty()) {
    const auto percent = [](std::int64_t per_mille) {
      return std::to_string(per_mille / 1000) + "." + std::to_string(per_mille % 1000 + 1000).substr(1);
    };
    session.line("reserved over allocated " + percent(quantile(ratios, 50)) + " in the median of " + std::to_string(ratios.size()) + " (" +
                 percent(quantile(ratios, 10)) + " to " + percent(quantile(ratios, 90)) + ", from the 10th to the 90th percentile)");
  }
  session.line("Written to " + printable(*arguments.calibrated) + "; use it with --calibration");
  return exit_status::ok;
}

}  // namespace whatfits::cli
