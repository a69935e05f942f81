// One run, step by step.
#include <optional>

#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/time.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/units.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"

namespace whatfits::cli {
namespace {

void reading(Table& table, const std::string& name, const std::optional<Counters>& counters) {
  if (counters) table.row({name, mib(counters->allocated), mib(counters->reserved)});
}

// Step 1 is unlike the others and the last stands for the rest; what is between says nothing new.
void counters_section(const Trace& trace, Session& session) {
  Table table({{"MiB", Table::Align::left}, {"allocated", Table::Align::right}, {"reserved", Table::Align::right}});
  reading(table, "after the warm-up", trace.after_warmup);
  reading(table, "after the model is made", trace.after_model);
  reading(table, "after the optimizer is made", trace.after_optimizer);
  const auto peak = [&](const std::string& name, const Counters& counters) {
    const Style& style = session.style;
    table.row({"  " + style.bold(name), style.bold(mib(counters.allocated)), style.bold(mib(counters.reserved))});
  };
  for (std::size_t i = 0; i < trace.steps.size(); ++i) {
    if (i != 0 && i + 1 != trace.steps.size()) continue;
    const StepCounters& step = trace.steps[i];
    const std::string name = "step " + std::to_string(i + 1);
    table.rule();
    reading(table, name + " begins", step.before);
    reading(table, "  after forward", step.after_forward);
    reading(table, "  after backward", step.after_backward);
    reading(table, "  after the optimizer step", step.after_optimizer_step);
    reading(table, "  after zero_grad", step.after_zero_grad);
    if (step.peak) {
      peak("peak of " + name, *step.peak);
    }
  }
  if (trace.oom) peak("highest before it failed", trace.oom->peak);
  session.out += table.text(2);
}

}  // namespace

int run_estimate(const Arguments& arguments, Session& session) {
  const Config config = checked(read_request(arguments.request));
  const std::uint64_t tokens = tokens_of(arguments.tokens);
  Report report;
  {
    const Progress progress(session, "replaying");
    report = estimate(config);
  }
  const Trace& trace = report.trace;
  const int status = trace.fits() ? exit_status::ok : exit_status::does_not_fit;
  if (arguments.json) {
    print_json(to_json(report), session);
    return status;
  }

  const Style& style = session.style;
  const std::string card = " on " + config.device.name;
  const Bytes free = static_cast<Bytes>(config.device.free_mib) * MiB;
  if (trace.oom) {
    session.line(style.bold(
        style.bad("Does not fit" + card + ": " + (report.by_formula ? trace.oom->message : "out of memory in " + place(trace.oom->at)))));
  } else {
    session.line(style.bold(style.good("Fits" + card + ": " + mib(trace.peak.reserved) + " of " + mib(free) + " MiB at the peak")));
  }
  session.line(style.dim(run_words(config) + ", " + with_commas(report.parameters) + " parameters"));
  session.line();
  if (!report.by_formula) {
    counters_section(trace, session);
    session.line();
  }
  if (trace.oom && !report.by_formula) {
    session.paragraph(oom_sentence(*trace.oom));
  } else {
    session.paragraph(peak_sentence(report));
  }
  session.line();
  session.line(style.bold("Where the bytes go at the peak") + (trace.oom && !report.by_formula ? ", " + place(trace.peak_at) : ""));
  session.out += category_table(report.ledger, session);
  if (const std::string settled = settled_sentence(report, session); !settled.empty()) {
    session.line();
    session.paragraph(settled);
  }
  time_section(report.pace, tokens, session);
  basis(report, session);
  session.line();
  session.line("Every tensor: " + style.accent("whatfits ledger" + arguments.request.as_words()));
  return status;
}

}  // namespace whatfits::cli
