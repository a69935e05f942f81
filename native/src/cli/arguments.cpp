#include "cli/arguments.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <vector>

#include "cli/failure.h"
#include "text/text.h"

namespace whatfits::cli {
namespace {

struct CommandText {
  Command command;
  const char* name;
  const char* help;
  const char* example;
  bool takes_request;
};

constexpr const char* kExampleModel = "--model gpt2-from-scratch --seq-len 1024 --device a40";

const std::vector<CommandText>& commands() {
  static const std::vector<CommandText> texts{
      {Command::fit, "fit", "The largest batch (or sequence length) that fits, and why not one more",
       "whatfits fit --model gpt2-from-scratch --seq-len 1024 --device a40", true},
      {Command::estimate, "estimate", "What one run takes, step by step, and whether it fits",
       "whatfits estimate --model gpt2-from-scratch --batch 8 --device a40", true},
      {Command::ledger, "ledger", "Every tensor alive at the peak, with shape, type, formula and owner",
       "whatfits ledger --model gpt2-from-scratch --batch 8", true},
      {Command::timeline, "timeline", "One step event by event, as a plot",
       "whatfits timeline --model gpt2-from-scratch --batch 8 --svg step.svg", true},
      {Command::sweep, "sweep", "A grid of batches and sequence lengths, on one card or many",
       "whatfits sweep --model gpt2-from-scratch --batches 1..32 --seq-lens 256,512,1024", true},
      {Command::advise, "advise", "What to change to make it fit, with each change's saving and cost",
       "whatfits advise --model gpt2-from-scratch --batch 32", true},
      {Command::explain, "explain", "The closed-form accounts line by line, beside the replay",
       "whatfits explain --model gpt2-from-scratch --batch 8", true},
      {Command::compare, "compare", "A measured PyTorch snapshot laid over the prediction: what differs, and why",
       "whatfits compare snapshot.pickle --model gpt2-from-scratch --batch 8", true},
      {Command::snapshot, "snapshot", "What a PyTorch memory snapshot says: peak, who holds it, fragmentation, failures",
       "whatfits snapshot snapshot.pickle", false},
      {Command::calibrate, "calibrate", "What measured runs say of a card that no replay can know, for --calibration",
       "whatfits calibrate oom.pickle --model gpt2 --batch 8 --device t4 --out my-card.json", true},
      {Command::measure, "measure", "Trains for real, with kernels and memory, beside what was predicted",
       "whatfits measure --model gpt2-from-scratch --batch 4 --seq-len 64 --on cpu --data book.txt --save model.safetensors", true},
      {Command::accuracy, "accuracy", "How wrong it is: predictions beside measurements, and beside other tools' formulas",
       "whatfits accuracy", false},
      {Command::devices, "devices", "The cards that have a name", "whatfits devices", false},
      {Command::models, "models", "The models that have a name", "whatfits models", false},
      {Command::version, "version", "Version of this program and of what it replays", "whatfits version", false},
  };
  return texts;
}

// Storage that CLI11 writes into. Vectors, so that an option given twice is seen and named.
struct Raw {
  std::map<std::string, std::vector<std::string>> values;
  bool json = false;
  bool all = false;
  bool sizes = false;
  bool resume = false;
  bool poison = false;
  bool allow_shared = false;
  bool tf32 = false;
};

class Parser {
 public:
  Parser() : app_("Will this training run fit, and where does every byte go?", "whatfits") {
    app_.get_formatter()->column_width(44);
    app_.get_formatter()->label("REQUIRED", "");
    app_.set_help_flag("-h,--help", "print this help");
    app_.set_version_flag("--version", std::string("whatfits " WHATFITS_VERSION));
    app_.require_subcommand(0, 1);
    app_.allow_extras();
    app_.footer(
        "Each command has its own help: whatfits fit --help\n\nExit status: 0 it fits (or the command did its job), 1 it does not fit, 2 "
        "the request is wrong or a file\ncannot be read.");
    for (const CommandText& text : commands()) add(text);
  }

  Arguments parse(const std::vector<std::string>& words) {
    std::vector<std::string> reversed(words.rbegin(), words.rend());  // CLI11 takes them from the end
    try {
      app_.parse(reversed);
    } catch (const CLI::CallForHelp&) {
      return only_text(app_.help());
    } catch (const CLI::CallForVersion&) {
      return only_text("whatfits " WHATFITS_VERSION "\n");
    } catch (const CLI::ParseError& error) {
      throw Failure(reworded(error.what()));
    }
    return collected();
  }

 private:
  CLI::Option* value(CLI::App& sub, const std::string& name, const std::string& hint, const std::string& help, const char* group) {
    CLI::Option* option = sub.add_option(name, raw_.values[sub.get_name() + name], help);
    option->expected(1)->allow_extra_args(false)->multi_option_policy(CLI::MultiOptionPolicy::TakeAll)->option_text(hint)->group(group);
    return option;
  }

  void add(const CommandText& text) {
    CLI::App& sub = *app_.add_subcommand(text.name, text.help);
    sub.footer(std::string("Example:\n  ") + text.example);
    sub.allow_extras();
    sub.set_help_flag("-h,--help", "print this help");
    sub.get_help_ptr()->group("");  // CLI11 would put its group first
    if (text.command == Command::snapshot)
      value(sub, "SNAPSHOT", " ", "a file that torch.cuda.memory._dump_snapshot() wrote, or its gzip", "Snapshot");
    if (text.command == Command::compare) {
      value(sub, "SNAPSHOT", " ",
            "a file that torch.cuda.memory._dump_snapshot() wrote, a report (whatfits estimate --json), or what whatfits measure wrote; or "
            "its gzip",
            "Snapshot");
    }
    if (text.command == Command::calibrate) {
      value(sub, "FILES", " ",
            "snapshots of torch.cuda.memory._dump_snapshot(), what whatfits measure wrote, and published sweeps (fixtures/published)",
            "Measurements")
          ->expected(1, -1)
          ->allow_extra_args(true);
    }
    if (text.takes_request && text.command != Command::calibrate)
      value(sub, "REQUEST", " ", "a JSON file, or - for standard input; flags override its keys", "Request");
    switch (text.command) {
      case Command::fit:
        value(sub, "--axis", "AXIS", "what to search: batch or seq-len [batch]", "Question");
        value(sub, "--devices", "LIST", "ids, or all: the smallest of these cards that runs the request", "Question");
        value(sub, "--tokens", "N", "how long that many tokens take [1000000000]", "Question");
        break;
      case Command::estimate:
        value(sub, "--tokens", "N", "how long that many tokens take [1000000000]", "Question");
        break;
      case Command::ledger:
        value(sub, "--at", "EVENT", "right after this allocation or free, instead of at the peak", "Question");
        break;
      case Command::timeline:
        value(sub, "--step", "N", "which step, 0 for what comes before the first [the last]", "Question");
        break;
      case Command::calibrate:
        value(sub, "--out", "FILE", "where to write it [standard output]", "Output");
        break;
      case Command::compare:
        value(sub, "--tolerance", "MIB", "differences up to this many MiB are no regression [1]", "Question");
        value(sub, "--cuda-device", "N", "which of the recording's devices [0]", "Question");
        break;
      case Command::snapshot:
        value(sub, "--event", "N", "segments and blocks after this event, instead of at the peak", "Question");
        value(sub, "--events", "FROM..TO", "read only these events of the file (a large one, a part of it)", "Question");
        value(sub, "--cuda-device", "N", "which of the recording's devices [0]", "Question");
        break;
      case Command::explain:
        sub.add_flag("--sizes", raw_.sizes, "models of all sizes beside each other: by formula, and replayed")->group("Question");
        break;
      case Command::sweep:
        value(sub, "--batches", "LIST", "1..32 or 16,18,20..24 [1,2,4,8,16,32,64]", "Question");
        value(sub, "--seq-lens", "LIST", "256,512,1024 [the request's]", "Question");
        value(sub, "--devices", "LIST", "ids, or all; without --batches: each card's largest batch", "Question");
        break;
      case Command::measure:
        add_measure(sub);
        break;
      case Command::accuracy:
        value(sub, "--fixtures", "FOLDER", "where the measurements are [fixtures/ of the source tree]", "Question");
        break;
      default:
        break;
    }
    if (text.takes_request) {
      for (const Flag& flag : request_flags()) value(sub, flag.name, flag.hint, flag.help, flag.help.empty() ? "" : "Request");
    }
    if (text.command == Command::ledger) {
      sub.add_flag("--all", raw_.all, "one line for every tensor instead of one for those alike")->group("Output");
    }
    if (text.command == Command::timeline) {
      value(sub, "--svg", "FILE", "write a picture instead", "Output");
      value(sub, "--pickle", "FILE", "write all steps as a PyTorch memory snapshot, for pytorch.org/memory_viz", "Output");
    }
    sub.add_flag("--json", raw_.json, "for programs: JSON, sizes in bytes")->group("Output");
  }

  void add_measure(CLI::App& sub) {
    value(sub, "--on", "cuda|cpu", "where to run [cpu]", "Run");
    value(sub, "--seed", "N", "of the parameters and of the order of the data [0]", "Run");
    value(sub, "--data", "FILE", "a text, or a GPT-2 token file [random tokens that are their own targets]", "Run");
    value(sub, "--lr", "X", "learning rate [3e-4 with AdamW, 1e-2 with SGD]", "Run");
    value(sub, "--load", "FILE", "go on from this checkpoint (safetensors)", "Run");
    value(sub, "--save", "FILE", "write a checkpoint after the last step", "Run");
    sub.add_flag("--tf32", raw_.tf32, "let the card multiply float32 with ten bits of mantissa")->group("Run");
    sub.add_flag("--allow-shared", raw_.allow_shared, "measure though others use the card or the memory too")->group("Run");
    sub.add_flag("--poison", raw_.poison, "fill freed memory with NaN: a tensor read after its death is found out")->group("Run");
    value(sub, "--batches", "LIST", "a sweep: 16,18,20..24, a process for each", "Sweep");
    value(sub, "--out", "FOLDER", "the sweep's rows.jsonl, sweep.csv, sweep.json and sweep.svg", "Sweep");
    sub.add_flag("--resume", raw_.resume, "go on with the sweep in --out")->group("Sweep");
    value(sub, "--fixture", "FILE", "write what was measured, as fixtures/schema.json says", "Output");
  }

  static Arguments only_text(std::string text) {
    Arguments arguments;
    arguments.help = std::move(text);
    return arguments;
  }

  static std::string command_names() {
    std::string names;
    for (const CommandText& text : commands()) names += (names.empty() ? "" : ", ") + std::string(text.name);
    return names;
  }

  // CLI11's own messages speak of types and counts. What is left after unknown and repeated words are handled is a missing value:
  // "--batch: 1 required TEXT missing".
  static std::string reworded(const std::string& message) {
    const std::size_t end = message.find_first_of(": ");
    if (message.compare(0, 2, "--") == 0 && end != std::string::npos) return message.substr(0, end) + ": needs a value";
    return message;
  }

  [[noreturn]] static void unknown_command(const std::string& word) {
    std::vector<std::string> names;
    for (const CommandText& text : commands()) names.emplace_back(text.name);
    const std::string near = nearest(word, names);
    throw Failure("command: \"" + printable(word) + "\" is not allowed: must be one of " + command_names() +
                  (near.empty() ? "" : "; did you mean " + near + "?"));
  }

  [[noreturn]] static void unknown_word(const CLI::App& sub, const std::string& word) {
    if (word.size() < 2 || word.front() != '-') {
      throw Failure(sub.get_name() + ": one word too many: \"" + printable(word) + "\"");
    }
    const std::string name = word.substr(0, word.find('='));
    std::vector<std::string> names;
    for (const CLI::Option* option : sub.get_options()) {
      for (const std::string& known : option->get_lnames()) names.push_back("--" + known);
    }
    const std::string near = nearest(name, names);
    throw Failure(printable(name) + ": is not a flag of whatfits " + sub.get_name() +
                  (near.empty() ? "; see whatfits " + sub.get_name() + " --help" : "; did you mean " + near + "?"));
  }

  std::optional<std::string> single(const std::string& command, const std::string& name) {
    const auto found = raw_.values.find(command + name);
    if (found == raw_.values.end() || found->second.empty()) return std::nullopt;
    if (found->second.size() > 1) {
      if (name == "REQUEST" || name == "SNAPSHOT") throw Failure(command + ": one word too many: \"" + printable(found->second[1]) + "\"");
      throw Failure(name + ": is given more than once");
    }
    return found->second.front();
  }

  Arguments collected() {
    const std::vector<CLI::App*> chosen = app_.get_subcommands();
    if (chosen.empty()) {
      const std::vector<std::string> left = app_.remaining();
      if (left.empty()) return Arguments();
      if (left.front().size() > 1 && left.front().front() == '-')
        throw Failure(printable(left.front()) + ": comes after a command: " + command_names());
      unknown_command(left.front());
    }
    CLI::App& sub = *chosen.front();
    if (const auto left = sub.remaining(); !left.empty()) unknown_word(sub, left.front());
    if (const auto left = app_.remaining(); !left.empty()) unknown_word(sub, left.front());

    Arguments arguments;
    const std::string& command = sub.get_name();
    for (const CommandText& text : commands()) {
      if (command == text.name) arguments.command = text.command;
    }
    arguments.json = raw_.json;
    arguments.all = raw_.all;
    arguments.sizes = raw_.sizes;
    arguments.request.file = single(command, "REQUEST");
    for (const Flag& flag : request_flags()) {
      if (auto given = single(command, flag.name)) arguments.request.flags.emplace_back(flag.name, *given);
    }
    arguments.snapshot = single(command, "SNAPSHOT");
    arguments.measurements = raw_.values[command + "FILES"];
    if (arguments.command == Command::calibrate) arguments.calibrated = single(command, "--out");
    arguments.tolerance = single(command, "--tolerance");
    arguments.device_index = single(command, "--cuda-device");
    arguments.event = single(command, "--event");
    arguments.events = single(command, "--events");
    arguments.pickle = single(command, "--pickle");
    arguments.fixtures = single(command, "--fixtures");
    arguments.axis = single(command, "--axis");
    arguments.tokens = single(command, "--tokens");
    arguments.at = single(command, "--at");
    arguments.step = single(command, "--step");
    arguments.svg = single(command, "--svg");
    arguments.batches = single(command, "--batches");
    arguments.seq_lens = single(command, "--seq-lens");
    arguments.devices = single(command, "--devices");
    MeasureFlags& measure = arguments.measure;
    measure.on = single(command, "--on");
    measure.seed = single(command, "--seed");
    measure.data = single(command, "--data");
    measure.lr = single(command, "--lr");
    measure.save = single(command, "--save");
    measure.load = single(command, "--load");
    measure.fixture = single(command, "--fixture");
    measure.out = single(command, "--out");
    measure.resume = raw_.resume;
    measure.poison = raw_.poison;
    measure.allow_shared = raw_.allow_shared;
    measure.tf32 = raw_.tf32;
    return arguments;
  }

  CLI::App app_;
  Raw raw_;
};

// A word after a switch that is meant as its value. So is a number, "--clip-grad-norm 1.0" of other tools: the request's check then
// says what is allowed, where a file of that name would be looked for in vain.
bool is_switch_value(const std::string& word) {
  for (const char* known : {"true", "false", "yes", "no", "on", "off"}) {
    if (word == known) return true;
  }
  return nlohmann::json::parse(word, nullptr, /*allow_exceptions=*/false).is_number();
}

// A switch of the request may stand alone ("--clip-grad-norm") or have its value ("--clip-grad-norm false"); the library would
// take whatever word comes next.
std::vector<std::string> with_switches_joined(int count, const char* const* words) {
  std::vector<std::string> out;
  for (int i = 1; i < count; ++i) {
    std::string word = words[i];
    const auto& flags = request_flags();
    const bool is_switch =
        std::any_of(flags.begin(), flags.end(), [&](const Flag& flag) { return flag.kind == Flag::Kind::boolean && flag.name == word; });
    if (is_switch) {
      const std::string next = i + 1 < count ? words[i + 1] : "";
      const bool has_value = is_switch_value(next);
      word += "=" + (has_value ? next : "true");
      if (has_value) ++i;
    }
    out.push_back(std::move(word));
  }
  return out;
}

std::string short_help() {
  std::string text = "whatfits: will this training run fit, and where does every byte go?\n\n";
  for (const CommandText& command : commands()) {
    text += "  whatfits " + std::string(command.name) + std::string(12 - std::string(command.name).size(), ' ') + command.help + "\n";
  }
  text += "\nTry:\n  whatfits fit " + std::string(kExampleModel) + "\n";
  text += "  whatfits timeline --model gpt2-from-scratch --batch 8\n";
  text += "  whatfits advise --model gpt2-from-scratch --batch 32 --device rtx-4090\n";
  return text;
}

}  // namespace

Arguments parse_arguments(int count, const char* const* words) {
  Parser parser;
  Arguments arguments = parser.parse(with_switches_joined(count, words));
  if (arguments.command == Command::none && !arguments.help) arguments.help = short_help();
  return arguments;
}

}  // namespace whatfits::cli
