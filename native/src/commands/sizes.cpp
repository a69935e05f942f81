// explain --sizes: what models of all sizes take, by the general account and by the replay, so that what the account misses is a column.
#include <algorithm>
#include <array>

#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/estimate.h"
#include "whatfits/json.h"
#include "whatfits/request.h"

namespace whatfits::cli {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

/// A plain decoder of about this many parameters, with heads of 64 to 128. The 40M and 100M shapes are those inferred from the general
/// account's printed terms (fixtures/published/general-account.json).
struct Shape {
  const char* name;
  std::int64_t layers, width, heads, vocabulary;
};
constexpr Shape kShapes[] = {{"10M", 6, 288, 4, 8192},      {"40M", 10, 512, 8, 8400},    {"100M", 12, 768, 12, 9790},
                             {"350M", 24, 1024, 16, 32000}, {"1B", 24, 1792, 14, 32000},  {"3B", 32, 2560, 20, 32000},
                             {"7B", 32, 4096, 32, 32000},   {"13B", 40, 5120, 40, 32000}, {"30B", 60, 6400, 50, 32000},
                             {"70B", 80, 8448, 66, 32000}};
constexpr std::array<std::int64_t, 3> kLengths{512, 2048, 8192};

/// Models that were published, by preset, and what of each the account has no term for.
struct Published {
  const char* preset;
  const char* differs;
};
constexpr Published kPublished[] = {{"gpt2", "tied head, learned positions"},
                                    {"pythia-1b", "rotary positions"},
                                    {"tinyllama-1.1b", "gated MLP, RMSNorm, 4 of 32 key heads"},
                                    {"llama-3.2-1b", "gated MLP, RMSNorm, 8 of 32 key heads, tied head, 128,256 words"},
                                    {"gemma-2b", "gated MLP, one key head, tied head, 256,000 words"},
                                    {"phi-2", "attention beside the MLP"},
                                    {"llama-2-7b", "gated MLP, RMSNorm"},
                                    {"mistral-7b-v0.1", "gated MLP, RMSNorm, 8 of 32 key heads"},
                                    {"qwen2.5-7b", "gated MLP, RMSNorm, 4 of 28 key heads, 152,064 words"},
                                    {"llama-3.1-8b", "gated MLP, RMSNorm, 8 of 32 key heads, 128,256 words"},
                                    {"llama-2-70b", "gated MLP, RMSNorm, 8 of 64 key heads"},
                                    {"mixtral-8x7b", "8 experts, 2 of them a token"}};

struct Row {
  std::string name;
  std::string differs;
  GeneralAccount account;              ///< of the request's batch at 2,048 tokens
  std::array<Bytes, 3> activations{};  ///< by the account, at kLengths
  std::uint64_t parameters = 0;        ///< of the replayed model
  Bytes eager = 0, fused = 0;          ///< peaks of `allocated`, on a card without limit
};

Bytes peak_of(json request, const char* attention) {
  request["attention"] = attention;
  Config config = checked(request);
  config.device.free_mib = limits::memory_mib;
  return estimate(config).trace.peak.allocated;
}

Row row_of(std::string name, json request) {
  request["seq_len"] = 2048;
  const Config config = checked(request);
  Row row;
  row.name = std::move(name);
  row.account = general_account(config);
  for (std::size_t i = 0; i < kLengths.size(); ++i) {
    Config at = config;
    at.seq_len = kLengths[i];
    row.activations[i] = general_account(at).activations;
  }
  row.parameters = record(config).parameters;
  row.eager = peak_of(request, "eager");
  row.fused = peak_of(request, "sdpa");
  return row;
}

json shape_request(json request, const Shape& shape) {
  request["model"] = {
      {"model_type", "gpt2-from-scratch"}, {"n_layer", shape.layers},       {"n_embd", shape.width}, {"n_head", shape.heads},
      {"vocab_size", shape.vocabulary},    {"n_positions", kLengths.back()}};
  return request;
}

json preset_request(json request, const Published& model) {
  request["model"] = model.preset;
  // GPT-2 has 1,024 positions of its own; its shape is asked for with the length that all rows have.
  if (request["model"] == "gpt2") request["model"] = {{"model_type", "gpt2"}, {"n_positions", 2048}};
  return request;
}

ordered_json to_json(const std::vector<Row>& rows) {
  ordered_json out = ordered_json::array();
  for (const Row& row : rows) {
    ordered_json item{{"name", row.name},
                      {"parameters", row.parameters},
                      {"account", {{"parameters", row.account.parameters}, {"state", row.account.state}, {"total", row.account.total}}}};
    for (std::size_t i = 0; i < kLengths.size(); ++i) item["account"]["activations_" + std::to_string(kLengths[i])] = row.activations[i];
    item["replay"] = {{"eager", row.eager}, {"sdpa", row.fused}};
    if (!row.differs.empty()) item["differs"] = row.differs;
    out.push_back(std::move(item));
  }
  return out;
}

// How far the account is from the replay of the code as it runs with explicit attention, which is what it describes.
std::string off_by(Bytes account, Bytes replay) {
  const auto percent = static_cast<std::int64_t>(account * 100 / std::max<Bytes>(replay, 1)) - 100;
  return (percent > 0 ? "+" : "") + std::to_string(percent) + " %";
}

}  // namespace

int run_sizes(const Arguments& arguments, Session& session) {
  RequestInput input = arguments.request;
  if (input.file) throw Failure("REQUEST: cannot stand beside --sizes, which has its own models");
  for (const auto& [name, value] : input.flags) {
    if (name == "--model" || name == "--seq-len" || name == "--attention" || name == "--engine")
      throw Failure(name + ": cannot stand beside --sizes, which has its own");
  }
  input.flags.emplace_back("--model", "gpt2-from-scratch");
  const json request = read_request(input);
  const Config common = checked(request);

  std::vector<Row> shapes;
  std::vector<Row> published;
  {
    Progress progress(session, "replaying models of all sizes");
    const std::size_t total = std::size(kShapes) + std::size(kPublished);
    for (const Shape& shape : kShapes) {
      shapes.push_back(row_of(shape.name, shape_request(request, shape)));
      progress.update(shapes.size(), total);
    }
    for (const Published& model : kPublished) {
      published.push_back(row_of(model.preset, preset_request(request, model)));
      published.back().differs = model.differs;
      progress.update(shapes.size() + published.size(), total);
    }
  }
  if (arguments.json) {
    print_json({{"shapes", to_json(shapes)}, {"published", to_json(published)}}, session);
    return exit_status::ok;
  }

  const Style& style = session.style;
  using Align = Table::Align;
  session.line(style.bold("What models take to train, in decimal GB") +
               style.dim(": " + std::string(to_string(common.precision)) + ", " + std::string(to_string(common.optimizer)) + ", batch " +
                         with_commas(common.batch)));
  session.line();
  session.line(style.bold("Plain decoders: the general account, and the replay at 2,048 tokens"));
  Table plain({{"size", Align::left},
               {"layers × width", Align::right},
               {"parameters", Align::right},
               {"state", Align::right},
               {"activations at 512", Align::right},
               {"2,048", Align::right},
               {"8,192", Align::right},
               {"total at 2,048", Align::right},
               {"replay, eager", Align::right},
               {"replay, fused", Align::right}});
  for (std::size_t i = 0; i < shapes.size(); ++i) {
    const Row& row = shapes[i];
    plain.row({row.name, std::to_string(kShapes[i].layers) + " × " + with_commas(kShapes[i].width), with_commas(row.account.parameters),
               decimal_gb(row.account.state), decimal_gb(row.activations[0]), decimal_gb(row.activations[1]),
               decimal_gb(row.activations[2]), decimal_gb(row.account.total), decimal_gb(row.eager), decimal_gb(row.fused)});
  }
  session.out += plain.text(2);
  session.line();
  session.line(style.bold("Published models at 2,048 tokens: what the account misses"));
  Table real({{"model", Align::left},
              {"parameters", Align::right},
              {"2·V·C + 12·L·C²", Align::right},
              {"account", Align::right},
              {"replay, eager", Align::right},
              {"account is off", Align::right},
              {"replay, fused", Align::right},
              {"it differs by", Align::left}});
  for (const Row& row : published) {
    real.row({row.name, with_commas(row.parameters), with_commas(row.account.parameters), decimal_gb(row.account.total),
              decimal_gb(row.eager), off_by(row.account.total, row.eager), decimal_gb(row.fused), style.dim(row.differs)});
  }
  session.out += real.text(2);
  session.line();
  session.paragraph(
      "The account counts weights, gradients, optimizer state and saved activations of a plain decoder. The replay is the peak of "
      "memory_allocated, with what operators need in between, of each model's own code: eager with explicit attention, which is "
      "what the account describes, and fused with scaled_dot_product_attention. Where the two agree the peak is in the optimizer's step, "
      "whose temporaries the account "
      "does not know.");
  return exit_status::ok;
}

}  // namespace whatfits::cli
