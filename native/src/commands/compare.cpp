// A measured snapshot laid over the prediction of a request.
#include "whatfits/compare.h"

#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/compare_counters.h"
#include "commands/read_snapshot.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/units.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

using snapshot::Cause;
using snapshot::Comparison;

void causes_section(const Comparison& comparison, const snapshot::Snapshot& recording, Session& session) {
  const Style& style = session.style;
  session.line();
  session.line(style.bold("What differs"));
  Table table({{"MiB at the peak", Table::Align::right},
               {"at the end", Table::Align::right},
               {"tensors", Table::Align::right},
               {"", Table::Align::left}});
  for (const Cause& cause : comparison.causes) {
    const bool elsewhere = cause.kind == Cause::Kind::other_process;
    table.row({signed_mib(cause.at_peak), elsewhere ? "" : signed_mib(cause.at_end), cause.tensors > 0 ? with_commas(cause.tensors) : "",
               cause.title + (cause.times > 1 ? ", " + with_commas(cause.times) + " times" : "")});
  }
  session.out += table.text(2);
  for (const Cause& cause : comparison.causes) {
    if (cause.advice.empty()) continue;
    session.line();
    session.line("  " + cause.title);
    if (cause.stack != snapshot::kNoStack) session.line(style.dim("    made at " + place_words(recording, cause.stack)));
    session.paragraph(cause.advice, "    ");
  }
}

}  // namespace

int run_compare(const Arguments& arguments, Session& session) {
  const std::int64_t tolerance = arguments.tolerance
                                     ? static_cast<std::int64_t>(whole_number("--tolerance", *arguments.tolerance, 1 << 20) * MiB)
                                     : snapshot::kTolerance;
  if (arguments.snapshot) {
    if (const auto json = json_object_of(*arguments.snapshot))
      return compare_counters(*arguments.snapshot, *json, tolerance, arguments, session);
  }
  const Config config = checked(read_request(arguments.request));
  needs_replay(config, "compare");
  const snapshot::Snapshot recording = read_snapshot(arguments, session);
  const std::size_t device = device_of(arguments, recording);
  const snapshot::MeasuredRun run = follow(recording, device);
  std::optional<Comparison> comparison;
  {
    const Progress progress(session, "laying it over the prediction");
    comparison = compare(recording, run, device, config);
  }
  if (!comparison) {
    throw Failure(
        "SNAPSHOT: has too little in common with " + run_words(config) +
        " to be laid over it: check model, batch, length, precision, attention and optimizer, and that the recording began before "
        "the model was made");
  }
  const bool as_predicted = !snapshot::differs(*comparison, tolerance) && run.failures.empty();
  const int status = as_predicted ? exit_status::ok : exit_status::does_not_fit;
  if (arguments.json) {
    Json out = to_json(*comparison, recording);
    out["request"] = request_json(config);
    out["failures"] = Json::array();
    for (const snapshot::Failure& failure : run.failures) out["failures"].push_back(to_json(failure));
    out["tolerance"] = tolerance;
    out["verdict"] = status == exit_status::ok ? "as predicted" : "differs";
    print_json(out, session);
    return status;
  }

  const Style& style = session.style;
  session.line(style.bold(status == exit_status::ok ? style.good("As predicted") : style.bad("Not as predicted")) + ": " +
               run_words(config));
  session.line(style.dim(with_commas(std::uint64_t{comparison->matched}) + " of " +
                         with_commas(std::uint64_t{comparison->measured_allocations}) + " measured allocations are the predicted ones (" +
                         with_commas(std::uint64_t{comparison->predicted_allocations}) + " in " + std::to_string(comparison->steps) +
                         " steps)"));
  session.line();
  Table table({{"peak, MiB", Table::Align::left},
               {"measured", Table::Align::right},
               {"predicted", Table::Align::right},
               {"", Table::Align::right}});
  const auto difference = [](Bytes measured, Bytes predicted) {
    return signed_mib(static_cast<std::int64_t>(measured) - static_cast<std::int64_t>(predicted));
  };
  const Counters& m = comparison->measured_peak;
  const Counters& p = comparison->predicted_peak;
  table.row({"allocated", mib(m.allocated), mib(p.allocated), difference(m.allocated, p.allocated)});
  table.row({"reserved", mib(m.reserved), mib(p.reserved), difference(m.reserved, p.reserved)});
  session.out += table.text(2);
  if (comparison->causes.empty()) {
    session.line();
    session.line("Every tensor is there, and lives as long as predicted.");
  } else {
    causes_section(*comparison, recording, session);
    if (comparison->unexplained != 0)
      session.line("  " + signed_mib(comparison->unexplained) + " MiB of the peak's difference are not explained by these");
  }
  failures_section(run, recording, device, session);
  return status;
}

}  // namespace whatfits::cli
