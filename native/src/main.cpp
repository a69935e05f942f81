// Parses, runs one command, writes what it collected. Nothing reaches standard output before a command has succeeded.
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <exception>

#include "cli/arguments.h"
#include "cli/failure.h"
#include "cli/files.h"
#include "cli/session.h"
#include "commands/commands.h"
#include "measure/measure.h"

namespace {

using namespace whatfits::cli;

int run(const Arguments& arguments, Session& session) {
  if (arguments.help) {
    session.out += *arguments.help;
    return exit_status::ok;
  }
  switch (arguments.command) {
    case Command::none:
      break;
    case Command::fit:
      return run_fit(arguments, session);
    case Command::estimate:
      return run_estimate(arguments, session);
    case Command::ledger:
      return run_ledger(arguments, session);
    case Command::timeline:
      return run_timeline(arguments, session);
    case Command::sweep:
      return run_sweep(arguments, session);
    case Command::advise:
      return run_advise(arguments, session);
    case Command::explain:
      return run_explain(arguments, session);
    case Command::compare:
      return run_compare(arguments, session);
    case Command::snapshot:
      return run_snapshot(arguments, session);
    case Command::calibrate:
      return run_calibrate(arguments, session);
    case Command::measure:
      return run_measure(arguments, session);
    case Command::accuracy:
      return run_accuracy(arguments, session);
    case Command::devices:
      return run_devices(arguments, session);
    case Command::models:
      return run_models(arguments, session);
    case Command::version:
      return run_version(arguments, session);
  }
  return exit_status::ok;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);  // a reader that went away is reported like any other failed write
  try {
    const Arguments arguments = parse_arguments(argc, argv);
    if (arguments.command == Command::measure) whatfits::native::prefer_passive_waiting(argv);
    Session session = Session::of_process();
    const int status = run(arguments, session);
    write_all(STDOUT_FILENO, session.out, "standard output");
    return status;
  } catch (const Failure& failure) {
    for (const std::string& line : failure.lines()) std::fprintf(stderr, "whatfits: %s\n", line.c_str());
  } catch (const std::bad_alloc&) {
    std::fputs("whatfits: this machine has too little memory to replay the request\n", stderr);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "whatfits: internal error: %s\n", error.what());
  }
  return exit_status::wrong;
}
