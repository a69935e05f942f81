// `whatfits measure` alone, for the tests and until the command line has it: measure_dev REQUEST.json [flags].
#include <CLI/CLI.hpp>
#include <fstream>
#include <iostream>
#include <iterator>

#include "measure/measure.h"
#include "whatfits/request.h"

using namespace whatfits;

int main(int argc, char** argv) {
  native::prefer_passive_waiting(argv);
  CLI::App app("Measures a training run");
  native::MeasureOptions options;
  std::string request;
  std::string batches;
  app.add_option("request", request)->required();
  app.add_option("--on", options.on);
  app.add_option("--steps", options.steps);
  app.add_option("--seed", options.seed);
  app.add_option("--data", options.data);
  app.add_option("--lr", options.hyper.lr);
  app.add_option("--save", options.save);
  app.add_option("--load", options.load);
  app.add_option("--fixture", options.fixture);
  app.add_option("--batches", batches);
  app.add_option("--out", options.out);
  app.add_flag("--resume", options.resume);
  app.add_flag("--poison", options.poison);
  CLI11_PARSE(app, argc, argv);
  options.argv.assign(argv, argv + argc);
  options.argv[0] = "whatfits measure";
  std::string text = request;
  if (request.empty() || request[0] != '{') {
    std::ifstream file(request);
    text.assign(std::istreambuf_iterator<char>(file), {});
  }
  const ParsedRequest parsed = parse_request(text);
  for (const Problem& problem : parsed.problems) std::cerr << to_line(problem) << '\n';
  if (!parsed.problems.empty()) return 2;
  if (!batches.empty()) {
    const auto list = native::parse_batches(batches);
    if (!list) {
      std::cerr << "batches: \"" << batches << "\" is not allowed: must be numbers and ranges like 16,18,20..24\n";
      return 2;
    }
    options.batches = *list;
  }
  return native::measure_command(parsed.config, options, std::cout, std::cerr);
}
