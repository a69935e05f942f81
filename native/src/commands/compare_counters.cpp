#include "commands/compare_counters.h"

#include <zlib.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <system_error>
#include <utility>
#include <vector>

#include "cli/failure.h"
#include "cli/flags.h"
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

constexpr std::size_t kMostBytes = std::size_t{64} << 20;

/// What stands on both sides: the readings outside of steps, those of each step, and the highest of all.
constexpr const char* kOutside[] = {"after_warmup", "after_model", "after_optimizer"};
constexpr const char* kInStep[] = {"before", "after_forward", "after_backward", "after_optimizer_step", "after_zero_grad", "peak"};

struct Reading {
  std::string at;  ///< "step 2, after backward"
  std::optional<Counters> file, predicted;

  /// Of allocated or reserved, the larger; what only one side has differs by all of it.
  std::int64_t off() const {
    const Counters f = file.value_or(Counters{});
    const Counters p = predicted.value_or(Counters{});
    const auto apart = [](Bytes a, Bytes b) { return static_cast<std::int64_t>(a > b ? a - b : b - a); };
    return std::max(apart(f.allocated, p.allocated), apart(f.reserved, p.reserved));
  }
  bool differs(std::int64_t tolerance) const { return file.has_value() != predicted.has_value() || off() > tolerance; }
};

/// Throws json::exception for what is no whole number of bytes.
std::optional<Counters> counters_at(const json& from, const char* key) {
  if (!from.contains(key) || from.at(key).is_null()) return {};
  const auto bytes = [&](const char* counter) { return Bytes{from.at(key).at(counter).get_ref<const json::number_unsigned_t&>()}; };
  const Bytes allocated = bytes("allocated");
  return Counters{allocated, bytes("reserved")};
}

std::string words_of(const std::string& key) {
  std::string words = key;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

std::vector<Reading> readings(const json& file, const json& report) {
  std::vector<Reading> list;
  const auto add = [&list](std::string at, const json& mine, const json& predicted, const char* key) {
    Reading one{std::move(at), counters_at(mine, key), counters_at(predicted, key)};
    if (one.file || one.predicted) list.push_back(std::move(one));
  };
  for (const char* key : kOutside) add(words_of(key), file, report, key);
  const json none = json::object();
  const json& mine = file.at("steps");
  const json& predicted = report.at("steps");
  for (std::size_t i = 0; i < std::max(mine.size(), predicted.size()); ++i) {
    for (const char* key : kInStep) {
      add("step " + std::to_string(i + 1) + ", " + words_of(key), i < mine.size() ? mine.at(i) : none,
          i < predicted.size() ? predicted.at(i) : none, key);
    }
  }
  add("peak", file, report, "peak");
  return list;
}

Json json_of(const std::optional<Counters>& counters) {
  if (!counters) return nullptr;
  return {{"allocated", counters->allocated}, {"reserved", counters->reserved}};
}

void print(const std::vector<Reading>& list, std::int64_t tolerance, Session& session) {
  using Align = Table::Align;
  Table table({{"MiB", Align::left},
               {"allocated, file", Align::right},
               {"predicted", Align::right},
               {"reserved, file", Align::right},
               {"predicted", Align::right}});
  const auto cell = [](const std::optional<Counters>& counters, Bytes Counters::* which) {
    return counters ? mib((*counters).*which) : std::string("none");
  };
  for (const Reading& one : list) {
    if (!one.differs(tolerance) && &one != &list.back()) continue;
    table.row({one.at, cell(one.file, &Counters::allocated), cell(one.predicted, &Counters::allocated), cell(one.file, &Counters::reserved),
               cell(one.predicted, &Counters::reserved)});
  }
  session.out += table.text(2);
}

/// The command line's request where it has a model; else the file's, with the command line's flags over it. With as many steps as
/// there are to compare.
Config config_for(const std::string& name, const json& own, std::size_t steps, const Arguments& arguments) {
  const auto& flags = arguments.request.flags;
  const bool given = arguments.request.file || !flags.empty();
  // What a model brings, its script's defaults among them, stands in the file's request and would stay under another model.
  const bool other_model = std::any_of(flags.begin(), flags.end(), [](const auto& flag) { return flag.first == "--model"; });
  json request = own;
  if (given) request = read_request(arguments.request, other_model || !own.is_object() ? json::object() : own);
  if (request.is_object()) request["steps"] = steps;
  Config config;
  if (given) {
    config = checked(request);
  } else {
    const ParsedRequest parsed = parse_request(request);
    if (!parsed.problems.empty()) throw Failure(name + ": its request: " + to_line(parsed.problems.front()));
    config = parsed.config;
  }
  needs_replay(config, "compare");
  return config;
}

/// The gzip or plain file, for as long as it is wanted.
class Unpacked {
 public:
  explicit Unpacked(const std::string& path) : name_(printable(path)), file_(gzopen(path.c_str(), "rbe"), gzclose) {
    if (!file_) throw Failure(name_ + ": cannot be read: " + std::strerror(errno));
  }
  /// Up to `size` more bytes at the end of `text`; false at the end of the file.
  bool more(std::string& text, std::size_t size) {
    const std::size_t had = text.size();
    text.resize(had + size);
    const int got = gzread(file_.get(), text.data() + had, static_cast<unsigned>(size));
    if (got < 0) {
      int number = 0;
      const char* const message = gzerror(file_.get(), &number);
      throw Failure(name_ + ": cannot be read: " + (number == Z_ERRNO ? std::strerror(errno) : message));
    }
    text.resize(had + static_cast<std::size_t>(got));
    return got > 0;
  }

 private:
  std::string name_;
  std::unique_ptr<gzFile_s, int (*)(gzFile)> file_;
};

}  // namespace

std::optional<json> json_object_of(const std::string& path) {
  // A pipe can be read once, and that is the snapshot reader's; of a name that is no file it says so.
  std::error_code error;
  if (!std::filesystem::is_regular_file(path, error)) return {};
  Unpacked file(path);
  std::string text;
  file.more(text, 4096);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first == std::string::npos || text[first] != '{') return {};  // no pickle begins so
  while (file.more(text, std::size_t{1} << 20)) {
    if (text.size() > kMostBytes) throw Failure(printable(path) + ": is JSON of more than 64 MiB, and no report has as much");
  }
  bool deep = false;
  const json value = json::parse(
      text,
      [&deep](int depth, json::parse_event_t, json&) {
        deep = deep || depth > limits::nesting;
        return depth <= limits::nesting;
      },
      /*allow_exceptions=*/false);
  if (value.is_discarded()) throw Failure(printable(path) + ": is neither JSON nor a snapshot of torch.cuda.memory._dump_snapshot()");
  if (deep) throw Failure(printable(path) + ": is JSON nested deeper than any report");
  return value;
}

int compare_counters(const std::string& path, const json& file, std::int64_t tolerance, const Arguments& arguments, Session& session) {
  const std::string name = printable(path);
  const bool measured = file.contains("schema") && file.at("schema") == "whatfits-fixture" && file.contains("counters");
  const bool reported = !measured && file.contains("steps") && file.contains("peak") && file.contains("verdict");
  if (!file.contains("request") || (!measured && !reported)) {
    throw Failure(name +
                  ": is JSON, but neither a report (whatfits estimate --json) nor what whatfits measure wrote; compare also takes "
                  "snapshots of torch.cuda.memory._dump_snapshot()");
  }
  const std::string written = measured ? "whatfits measure" : "whatfits estimate --json";
  const json& counters = measured ? file.at("counters") : file;
  if (!counters.is_object() || !counters.contains("steps") || !counters.at("steps").is_array())
    throw Failure(name + ": is not as " + written + " writes it");
  const std::size_t steps = counters.at("steps").size();
  if (steps == 0) throw Failure(name + ": has no steps: a closed form says no counters after a phase");
  if (steps > static_cast<std::size_t>(limits::steps))
    throw Failure(name + ": has more steps than a request can ask for, " + std::to_string(limits::steps));
  const Config config = config_for(name, file.at("request"), steps, arguments);
  const Report report = estimate(config);
  std::vector<Reading> list;
  try {
    list = readings(counters, to_json(report));
  } catch (const json::exception&) {
    throw Failure(name + ": is not as " + written + " writes it");
  }

  const std::string verdict = measured ? "fits" : file.at("verdict").is_string() ? file.at("verdict").get<std::string>() : "";
  const std::string predicted_verdict = report.trace.fits() ? "fits" : "oom";
  const auto off =
      static_cast<std::size_t>(std::count_if(list.begin(), list.end(), [&](const Reading& one) { return one.differs(tolerance); }));
  const bool same = off == 0 && verdict == predicted_verdict;
  const int status = same ? exit_status::ok : exit_status::does_not_fit;
  const char* const what = measured ? "a run of whatfits measure" : "a report";
  if (arguments.json) {
    Json out{{"what", what}, {"request", request_json(config)}, {"readings", Json::array()}};
    for (const Reading& one : list) {
      out["readings"].push_back(
          {{"at", one.at}, {"file", json_of(one.file)}, {"predicted", json_of(one.predicted)}, {"differs", one.differs(tolerance)}});
    }
    out["file_verdict"] = verdict;
    out["predicted_verdict"] = predicted_verdict;
    out["tolerance"] = tolerance;
    out["verdict"] = same ? "as predicted" : "differs";
    print_json(out, session);
    return status;
  }
  const Style& style = session.style;
  session.line(style.bold(same ? style.good("As predicted") : style.bad("Not as predicted")) + ": " + run_words(config));
  session.paragraph(name + " is " + what + ": its counters after each phase are compared; which tensors differ only a snapshot can tell. " +
                    with_commas(std::uint64_t{off}) + " of " + with_commas(std::uint64_t{list.size()}) + " readings differ by more than " +
                    size_text(static_cast<Bytes>(tolerance)) + (off > 0 ? ", and the peak:" : "; the peak:"));
  session.line();
  print(list, tolerance, session);
  if (verdict != predicted_verdict) session.line("The file says " + printable(verdict) + ", the prediction " + predicted_verdict);
  return status;
}

}  // namespace whatfits::cli
