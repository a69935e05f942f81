// The command line, taken apart.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "cli/flags.h"

namespace whatfits::cli {

enum class Command {
  none,
  fit,
  estimate,
  ledger,
  timeline,
  sweep,
  advise,
  explain,
  compare,
  snapshot,
  calibrate,
  measure,
  accuracy,
  devices,
  models,
  version
};

/// The flags of measure, as given.
struct MeasureFlags {
  std::optional<std::string> on, seed, data, lr, save, load, fixture, out;
  bool resume = false;
  bool poison = false;
  bool allow_shared = false;
  bool tf32 = false;
};

/// What was asked. Options that a command does not have are absent.
struct Arguments {
  Command command = Command::none;
  RequestInput request;
  bool json = false;
  bool sizes = false;                                      ///< explain --sizes
  bool all = false;                                        ///< ledger --all
  std::optional<std::string> snapshot;                     ///< compare, snapshot: the file
  std::vector<std::string> measurements;                   ///< calibrate: files
  std::optional<std::string> calibrated;                   ///< calibrate: where to
  std::optional<std::string> tolerance;                    ///< compare
  std::optional<std::string> device_index, event, events;  ///< compare, snapshot
  std::optional<std::string> pickle;                       ///< timeline
  std::optional<std::string> fixtures;                     ///< accuracy
  std::optional<std::string> axis;                         ///< fit
  std::optional<std::string> tokens;                       ///< fit, estimate
  std::optional<std::string> at;                           ///< ledger
  std::optional<std::string> step;                         ///< timeline
  std::optional<std::string> svg;                          ///< timeline
  std::optional<std::string> batches, seq_lens, devices;   ///< sweep; measure has --batches too
  MeasureFlags measure;
  std::optional<std::string> help;  ///< text to print instead of running anything
};

/// Throws Failure with one line if the words make no command.
Arguments parse_arguments(int count, const char* const* words);

}  // namespace whatfits::cli
