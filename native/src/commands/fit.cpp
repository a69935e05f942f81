// The largest batch, and why not one more.
#include <algorithm>

#include "cli/failure.h"
#include "commands/cards.h"
#include "commands/commands.h"
#include "commands/time.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"

namespace whatfits::cli {
namespace {

Axis axis_of(const Arguments& arguments) {
  if (!arguments.axis || *arguments.axis == "batch") return Axis::batch;
  if (*arguments.axis == "seq-len" || *arguments.axis == "seq_len") return Axis::seq_len;
  throw Failure("--axis: \"" + printable(*arguments.axis) + "\" is not allowed: must be batch or seq-len");
}

Config at_value(Config config, Axis axis, std::int64_t value) {
  (axis == Axis::batch ? config.batch : config.seq_len) = value;
  return config;
}

// What the figure searched for is, given the rest of the run.
std::string verdict(const Config& config, const Fit& fit) {
  const std::string card = " on " + config.device.name;
  const std::string most = fit.capped ? " (the most that a request may ask for; nothing failed)" : "";
  if (fit.axis == Axis::batch) {
    const std::string of = "sequences of " + with_commas(config.seq_len) + " tokens";
    if (fit.largest == 0) return "Not even one sequence of " + with_commas(config.seq_len) + " tokens fits" + card;
    return "Largest batch: " + with_commas(fit.largest) + " (" + of + ")" + card + most;
  }
  const std::string of = config.batch == 1 ? "one sequence" : with_commas(config.batch) + " sequences";
  if (fit.largest == 0) return "Not even one token fits (" + of + ")" + card;
  const bool whole = fit.capped && fit.largest == config.model.n_positions;
  return "Longest sequence: " + with_commas(fit.largest) + " tokens (" + of + ")" + card + (whole ? " (all the model can take)" : most);
}

std::string bound_sentence(const Config& config, const Fit& fit) {
  const OutOfMemory& oom = *fit.first_failure;
  const std::string sum = "live tensors take " + size_text(oom.counters.allocated) + ", with this one " +
                          size_text(oom.counters.allocated + oom.tensor) + " of the card's " +
                          size_text(static_cast<Bytes>(config.device.free_mib) * MiB);
  if (fit.bound_by == "allocated") return "Bound by allocated: " + sum + ". However well memory is used, it is not enough.";
  if (fit.bound_by == "reserved") {
    return "Bound by reserved: " + sum +
           ", which would fit. But freed memory that PyTorch keeps is in pieces too small for this request, and "
           "the card has no room for a new one of its size.";
  }
  return {};
}

void peak_section(const Report& report, Session& session) {
  const Style& style = session.style;
  const Trace& trace = report.trace;
  const Bytes free = static_cast<Bytes>(report.request.device.free_mib) * MiB;
  Table table({{"", Table::Align::left}, {"MiB", Table::Align::right}, {"", Table::Align::left}});
  table.hide_heads();
  const Engine engine = report.request.engine;
  table.row({"allocated", mib(trace.peak.allocated) + " MiB",
             style.dim(engine == Engine::llm_c ? "all buffers"
                       : engine == Engine::mlx ? "active memory (get_peak_memory)"
                                               : "live tensors (max_memory_allocated)")});
  table.row({"reserved", mib(trace.peak.reserved) + " MiB",
             style.dim(engine == Engine::llm_c ? "each in whole pages of 2 MiB"
                       : engine == Engine::mlx ? "the same: MLX can empty its cache"
                                               : "held by PyTorch's allocator (max_memory_reserved)")});
  std::string spare = "on the card before the run";
  if (free >= trace.peak.reserved) spare += "; " + mib(free - trace.peak.reserved) + " MiB are left over";
  table.row({"free", mib(free) + " MiB", style.dim(spare)});
  session.out += table.text(2);
  session.paragraph(peak_sentence(report), "  ");
}

void failure_section(const Config& config, const Fit& fit, Session& session) {
  const Style& style = session.style;
  const std::string value = (fit.axis == Axis::batch ? "Batch " : "Length ") + with_commas(fit.first_failure_at);
  if (!fit.first_failure) {
    session.paragraph(style.bad(value + " does not settle") +
                      ": it ran 64 steps, but at the pace at which it still takes memory it may fail later, so it cannot be said to fit.");
    return;
  }
  if (config.engine != Engine::torch) {
    session.line(style.bad(value + " does not fit") + ": " + fit.first_failure->message);
    return;
  }
  session.line(style.bad(value + " runs out of memory") + " in " + place(fit.first_failure->at));
  session.paragraph(oom_sentence(*fit.first_failure), "  ");
  if (const std::string why = bound_sentence(config, fit); !why.empty()) session.paragraph(why, "  ");
}

void hint(const Arguments& arguments, const Fit& fit, Session& session) {
  // The advice is about one run; the first that fails is the one to make fit.
  RequestInput next = arguments.request;
  const std::string flag = fit.axis == Axis::batch ? "--batch" : "--seq-len";
  const auto same = [&](const auto& pair) { return pair.first == flag; };
  next.flags.erase(std::remove_if(next.flags.begin(), next.flags.end(), same), next.flags.end());
  next.flags.emplace_back(flag, std::to_string(std::max<std::int64_t>(fit.first_failure_at, 1)));
  session.line();
  session.line("What would make it fit: " + session.style.accent("whatfits advise" + next.as_words()));
}

}  // namespace

int run_fit(const Arguments& arguments, Session& session) {
  const Axis axis = axis_of(arguments);
  const std::uint64_t tokens = tokens_of(arguments.tokens);
  if (arguments.devices) return run_smallest_card(arguments, session);
  const Config config = checked(read_request(arguments.request));
  Fit answer;
  {
    const Progress progress(session, "replaying batch after batch");
    answer = fit(config, axis);
  }
  const int status = answer.largest > 0 ? exit_status::ok : exit_status::does_not_fit;
  if (arguments.json) {
    print_json(to_json(answer), session);
    return status;
  }

  const Style& style = session.style;
  const std::string first = verdict(config, answer);
  session.line(style.bold(answer.largest > 0 ? style.good(first) : style.bad(first)));
  session.line(style.dim(run_words(at_value(config, axis, std::max<std::int64_t>(answer.largest, 1)))));
  if (answer.report) {
    session.line();
    peak_section(*answer.report, session);
  }
  if (!answer.capped) {
    session.line();
    failure_section(config, answer, session);
  }
  if (answer.report) {
    session.line();
    session.line(style.bold("Where the bytes go at the peak of " + std::string(axis == Axis::batch ? "batch " : "length ") +
                            with_commas(answer.largest)));
    session.out += category_table(answer.report->ledger, session);
    if (const std::string settled = settled_sentence(*answer.report, session); !settled.empty()) {
      session.line();
      session.paragraph(settled);
    }
    time_section(answer.report->pace, tokens, session);
    basis(*answer.report, session);
  }
  if (!answer.capped && config.engine == Engine::torch) hint(arguments, answer, session);
  return status;
}

}  // namespace whatfits::cli
