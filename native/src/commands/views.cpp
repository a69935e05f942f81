#include "commands/views.h"

#include <algorithm>
#include <charconv>

#include "cli/failure.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/near.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

std::string with_spaces(std::string_view word) {
  std::string text(word);
  std::replace(text.begin(), text.end(), '_', ' ');
  return text;
}

}  // namespace

std::string phase_words(Phase phase) { return with_spaces(name_of(phase)); }

std::string category_words(Category category) { return with_spaces(name_of(category)); }

std::string place(const Moment& moment) {
  std::string text = moment.step > 0 ? "step " + std::to_string(moment.step) : "before the first step";
  text += ", " + phase_words(moment.phase);
  if (moment.layer != kNoLayer) text += ", layer " + std::to_string(moment.layer);
  if (moment.op != OpKind::none) text += ", " + std::string(name_of(moment.op));
  return text;
}

std::string category_note(Category category) {
  switch (category) {
    case Category::parameters:
      return "the weights";
    case Category::gradients:
      return "one number per weight, from backward until zero_grad";
    case Category::optimizer_state:
      return "what the optimizer remembers of each weight";
    case Category::buffers:
      return "fixed tensors of the model, such as causal masks";
    case Category::workspaces:
      return "scratch of the matrix library (cuBLAS)";
    case Category::activations:
      return "saved by forward, because backward needs them";
    case Category::attention:
      return "scores and probabilities: tokens × tokens for each head";
    case Category::logits:
      return "one number per word of the vocabulary and token";
    case Category::temporaries:
      return "alive only while something is computed";
    case Category::inputs:
      return "token ids and targets";
    case Category::rounding:
      return "blocks are multiples of 512 bytes, and some are larger than asked for";
  }
  return {};
}

std::string model_words(const Config& config) {
  if (!config.model.preset.empty()) return config.model.preset;
  return config.model.model_type + " of " + std::to_string(config.model.n_layer) + " layers × " + std::to_string(config.model.n_embd);
}

std::string run_words(const Config& config) {
  std::string text = model_words(config) + ", batch " + with_commas(config.batch) + " × " + with_commas(config.seq_len) + " tokens, " +
                     std::string(to_string(config.precision)) + ", " + std::string(to_string(config.optimizer));
  if (config.attention != Attention::eager) text += ", attention " + std::string(to_string(config.attention));
  if (config.checkpointing != Checkpointing::none) text += ", checkpointing " + std::string(to_string(config.checkpointing));
  if (config.grad_accumulation > 1) text += ", " + with_commas(config.grad_accumulation) + " micro-batches";
  if (config.clip_grad_norm) text += ", clipping";
  if (config.zero_grad != ZeroGrad::set_to_none) text += ", zero_grad " + std::string(to_string(config.zero_grad));
  if (config.parallel)
    text += ", " + std::string(to_string(config.parallel->strategy)) + " on " + with_commas(config.parallel->gpus) +
            (config.parallel->strategy == Parallel::Strategy::zero1 ? " cards, the rank with the most" : " cards, rank 0");
  if (config.allocator.expandable_segments) text += ", expandable segments";
  if (config.engine == Engine::formula) text += ", by formula";
  if (config.engine == Engine::llm_c) text += ", llm.c";
  if (config.engine == Engine::mlx) text += ", MLX";
  return text;
}

std::string category_table(const Ledger& ledger, const Session& session) {
  std::vector<Category> order;
  for (int i = 0; i < kCategories; ++i) {
    if (ledger.categories[static_cast<std::size_t>(i)] > 0) order.push_back(static_cast<Category>(i));
  }
  const auto bytes = [&](Category category) { return ledger.categories[static_cast<std::size_t>(category)]; };
  std::stable_sort(order.begin(), order.end(), [&](Category a, Category b) { return bytes(a) > bytes(b); });

  const bool notes = session.width >= 84;
  Table table({{"", Table::Align::left}, {"MiB", Table::Align::right}, {"share", Table::Align::right}, {"", Table::Align::left}});
  for (const Category category : order) {
    table.row({category_words(category), mib(bytes(category)), percent(bytes(category), ledger.counters.allocated),
               notes ? session.style.dim(category_note(category)) : ""});
  }
  table.row({session.style.bold("allocated"), session.style.bold(mib(ledger.counters.allocated)), "100.0 %", ""});
  return table.text(2);
}

std::string peak_sentence(const Report& report) {
  if (report.request.engine == Engine::llm_c)
    return "llm.c allocates all of it before the first step; reserved is each allocation in whole pages of 2 MiB.";
  if (report.request.engine == Engine::mlx)
    return "A closed form: it says how much, not when; what MLX caches of freed buffers is not in it.";
  if (report.by_formula) return "A closed form: it says how much, not when; reserved is allocated times the ratio of one measured run.";
  const Moment& at = report.trace.peak_at;
  const std::string exact = with_commas(at.requested) + " bytes";
  const std::string size = size_text(at.requested);
  return "The peak is in " + place(at) + ", which asks for " + size + (size == exact ? "." : " (" + exact + ").");
}

std::string oom_sentence(const OutOfMemory& oom) {
  std::string text = "It asks for " + size_text(oom.tensor);
  // Small tensors share segments of 2 or 20 MiB: then the card is asked for more than the tensor.
  if (size_text(oom.segment) != size_text(oom.tensor)) text += ", for which PyTorch requests " + size_text(oom.segment) + " from the card";
  text += "; " + (oom.free == 0 ? std::string("nothing") : size_text(oom.free)) + " is free on the card";
  if (oom.cached_free > 0) {
    text += ", and " + size_text(oom.cached_free) + " is cached by PyTorch but in pieces, the largest " + size_text(oom.largest_piece);
  }
  return text + ".";
}

std::string settled_sentence(const Report& report, const Session& session) {
  const Trace& trace = report.trace;
  if (trace.oom || report.by_formula) return {};
  const Style& style = session.style;
  const std::size_t steps = trace.steps.size();
  if (!trace.settled && trace.goes_on(64, static_cast<Bytes>(report.request.device.free_mib) * MiB)) {
    return style.good("It goes on,") +
           " as far as 64 steps tell: nothing was given back to the card in the last 32, and at their pace a thousand more fit. Small "
           "tensors still change places from step to step, so it is not proved for ever.";
  }
  if (!trace.settled) {
    return "Not known beyond step " + std::to_string(steps) +
           ": the allocator's state has not recurred yet. whatfits fit replays until it does.";
  }
  const Settled& settled = *trace.settled;
  const std::string every =
      settled.period == 1 ? "every step repeats the one before" : "the steps repeat in turns of " + std::to_string(settled.period);
  return style.good("It goes on for ever:") + " from step " + std::to_string(settled.step) + " on " + every +
         ", down to each address, so what holds for " + std::to_string(steps) + " steps holds for any number.";
}

void basis(const Report& report, Session& session) {
  if (!report.by_formula) {
    session.line();
    session.paragraph(in_words(near_runs(report.request)) + " " + in_words(card_runs(report.request)));
  }
  const std::vector<std::string>& list = report.assumptions;
  if (list.empty()) return;
  session.line();
  session.line("Assumed");
  for (const std::string& text : list) {
    session.out += "  - ";
    session.out += wrapped(text, std::min<std::size_t>(session.width, 110) - 4, "    ");
    session.line();
  }
}

void print_json(const nlohmann::ordered_json& json, Session& session) {
  // Names in a file that was read may be no UTF-8.
  session.line(json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace));
}

void needs_replay(const Config& config, const std::string& command) {
  if (config.engine == Engine::torch) return;
  throw Failure("engine: \"" + std::string(to_string(config.engine)) + "\" is not allowed: whatfits " + command +
                " shows what a replay does; must be torch");
}

std::uint64_t whole_number(const std::string& flag, const std::string& text, std::uint64_t most) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc() && end == text.data() + text.size() && number <= most) return number;
  throw Failure(flag + ": \"" + printable(text) + "\" is not allowed: must be a whole number from 0 to " + std::to_string(most));
}

}  // namespace whatfits::cli
