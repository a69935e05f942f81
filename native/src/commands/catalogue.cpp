// What has a name: devices, models, versions.
#include <string>

#include "cli/failure.h"
#include "commands/commands.h"
#include "commands/views.h"
#include "text/table.h"
#include "text/text.h"
#include "text/units.h"
#include "whatfits/presets.h"

namespace whatfits::cli {
namespace {

using Align = Table::Align;
using nlohmann::ordered_json;

std::string capability(int value) { return value == 0 ? "" : std::to_string(value / 10) + "." + std::to_string(value % 10); }

// A figure, or null where there is none.
ordered_json or_null(std::int64_t value) { return value > 0 ? ordered_json(value) : ordered_json(nullptr); }

ordered_json device_json(const DevicePreset& preset) {
  const Device& device = preset.device;
  ordered_json out{
      {"id", preset.id},
      {"name", device.name},
      {"vendor", preset.vendor},
      {"total_mib", or_null(device.total_mib)},
      {"free_mib", or_null(device.free_mib)},
      {"total_assumed", device.total_assumed},
      {"free_assumed", device.free_assumed},
      {"compute_capability", device.compute_capability == 0 ? ordered_json(nullptr) : ordered_json(capability(device.compute_capability))},
      {"sm_count", or_null(device.sm_count)},
      {"replayed", preset.missing.empty() && device.free_mib > 0}};
  if (!preset.alias.empty()) out["alias"] = preset.alias;
  if (!preset.missing.empty()) out["missing"] = preset.missing;
  return out;
}

}  // namespace

int run_devices(const Arguments& arguments, Session& session) {
  const auto presets = device_presets();
  if (arguments.json) {
    ordered_json out = ordered_json::array();
    for (const DevicePreset& preset : presets) out.push_back(device_json(preset));
    print_json(out, session);
    return exit_status::ok;
  }
  const Style& style = session.style;
  Table table({{"id", Align::left},
               {"name", Align::left},
               {"total MiB", Align::right},
               {"free MiB", Align::right},
               {"capability", Align::right},
               {"SMs", Align::right}});
  std::vector<const DevicePreset*> others;
  const auto figure = [](std::int64_t value, bool assumed) {
    return value > 0 ? with_commas(value) + (assumed ? " ~" : "  ") : std::string("-  ");
  };
  for (const DevicePreset& preset : presets) {
    if (!preset.missing.empty()) {
      others.push_back(&preset);
      continue;
    }
    const Device& device = preset.device;
    table.row({style.accent(preset.id) + (preset.alias.empty() ? "" : ", " + preset.alias), device.name,
               figure(device.total_mib, device.total_assumed), figure(device.free_mib, device.free_assumed),
               capability(device.compute_capability), with_commas(std::int64_t{device.sm_count})});
  }
  session.out += table.text();
  session.line();
  session.line("~ derived, not observed. Free is what is left once CUDA's context exists.");
  if (others.empty()) return exit_status::ok;
  session.line();
  session.line("Only for the closed forms (--engine formula or mlx), as PyTorch's CUDA kernels do not run there or a figure is missing:");
  Table rest({{"id", Align::left}, {"name", Align::left}, {"total MiB", Align::right}, {"why", Align::left}});
  for (const DevicePreset* preset : others) {
    rest.row(
        {style.accent(preset->id), preset->device.name, figure(preset->device.total_mib, preset->device.total_assumed), preset->missing});
  }
  session.out += rest.text();
  return exit_status::ok;
}

int run_models(const Arguments& arguments, Session& session) {
  const auto presets = model_presets();
  if (arguments.json) {
    ordered_json out = ordered_json::array();
    for (const ModelPreset& preset : presets) {
      const ModelConfig& model = preset.config;
      out.push_back({{"id", preset.id},
                     {"model_type", model.model_type},
                     {"parameters", preset.parameters},
                     {"n_layer", model.n_layer},
                     {"n_embd", model.n_embd},
                     {"n_head", model.n_head},
                     {"vocab_size", model.vocab_size},
                     {"n_positions", model.n_positions}});
    }
    print_json(out, session);
    return exit_status::ok;
  }
  Table table({{"id", Align::left},
               {"type", Align::left},
               {"parameters", Align::right},
               {"layers", Align::right},
               {"width", Align::right},
               {"heads", Align::right},
               {"vocabulary", Align::right},
               {"positions", Align::right}});
  for (const ModelPreset& preset : presets) {
    const ModelConfig& model = preset.config;
    table.row({session.style.accent(preset.id), model.model_type, with_commas(preset.parameters), with_commas(model.n_layer),
               with_commas(model.n_embd), with_commas(model.n_head), with_commas(model.vocab_size), with_commas(model.n_positions)});
  }
  session.out += table.text();
  session.line();
  std::string types;
  for (const ModelPreset& preset : presets) {
    if (types.find(preset.config.model_type) == std::string::npos) types += (types.empty() ? "" : "\" or \"") + preset.config.model_type;
  }
  session.paragraph("Any other size of these types can be given as a JSON file: {\"model_type\": \"" + types +
                    "\", \"n_layer\": 24, \"n_embd\": 1024, \"n_head\": 16}.");
  return exit_status::ok;
}

int run_version(const Arguments& arguments, Session& session) {
  const Config defaults;
  if (arguments.json) {
    print_json({{"whatfits", WHATFITS_VERSION}, {"torch", defaults.torch}, {"transformers", defaults.transformers}}, session);
    return exit_status::ok;
  }
  session.line("whatfits " WHATFITS_VERSION);
  session.line("replays PyTorch " + defaults.torch + "; model code of Transformers " + defaults.transformers);
  return exit_status::ok;
}

}  // namespace whatfits::cli
