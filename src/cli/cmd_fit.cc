// snug fit RECIPE
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "backend/cuda_plan/catalogue.h"
#include "base/error.h"
#include "base/names.h"
#include "cli/commands.h"
#include "cli/data_limits.h"
#include "cli/make_backend.h"
#include "cli/stage_plans.h"
#include "fit/fitted_run.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/printable.h"
#include "io/shell_word.h"
#include "model/locate.h"
#include "plan/training.h"
#include "recipe/edit.h"
#include "recipe/keys.h"
#include "recipe/parse.h"
#include "recipe/write.h"
#include "report/console.h"
#include "report/fit_report.h"
#include "report/layout.h"

namespace snug {
namespace {

struct FitOptions {
  RecipeArguments recipe;
  DeviceArguments device;
  std::string output;
  std::vector<std::string> allowed;
  bool data = false;
  bool json = false;
};

std::set<std::string, std::less<>> allowed_keys(const FitOptions& options) {
  std::vector<std::string_view> known = keys_to_allow();
  for (const std::string& key : options.allowed) {
    if (std::find(known.begin(), known.end(), key) == known.end()) {
      std::string nearest = nearest_name(key, {known.begin(), known.end()});
      throw bad_input(fmt::format("--allow {}: expected one of {}{}", in_quotes(key), fmt::join(known, ", "),
                                  nearest.empty() ? "" : fmt::format("; did you mean \"{}\"?", nearest)));
    }
  }
  return {options.allowed.begin(), options.allowed.end()};
}

// What the command line says of the recipe. A card's memory is the limit, and stands in what is written: it
// was fitted to that.
std::vector<std::string> given_settings(const FitOptions& options) {
  std::vector<std::string> given = all_overrides(options.recipe);
  bool limited = std::any_of(given.begin(), given.end(),
                             [](const std::string& one) { return one.starts_with("memory.limit="); });
  if (!options.device.gpu.empty() && !limited) {
    Recipe on_card;
    on_card.memory.limit_bytes = find_catalogue_card(options.device.gpu).memory_bytes;
    given.push_back("memory.limit=" + yaml_value(find_recipe_key("memory.limit")->print(on_card)));
  }
  return given;
}

std::vector<std::string> joined(std::vector<std::string> settings, const std::vector<std::string>& more) {
  settings.insert(settings.end(), more.begin(), more.end());
  return settings;
}

// The recipe's own text with the changes in it, read back: it must mean what was fitted.
void write_fitted(const FitOptions& options, const std::string& text, const FittedRun& run) {
  const std::string& source = options.recipe.path;
  std::string name = source == kStandardInput ? "recipe" : source;
  std::string edited = edit_recipe(text, name, joined(given_settings(options), run.settings));
  std::vector<Recipe> meant;
  for (const FittedStage& stage : run.stages) {
    meant.push_back(stage.after);
  }
  if (recipes_to_yaml(parse_recipes(edited, source == kStandardInput ? "" : source)) !=
      recipes_to_yaml(meant)) {
    throw bad_input(fmt::format(
        "{}: it is spelled so that it cannot be changed in place; change it by hand, or use --set {}", name,
        fmt::join(run.settings, " --set ")));
  }
  if (recipes_to_yaml(parse_recipes(edited, options.output)) != recipes_to_yaml(meant)) {
    throw bad_input(fmt::format("-o {}: it names files that are found from the folder of {}: write it there",
                                in_quotes(options.output), name));
  }
  write_file_atomically(options.output, edited);
}

void add_cuts(FittedRun& run) {
  for (FittedStage& stage : run.stages) {
    if (!stage.offers) {
      continue;
    }
    for (Alternative& one : stage.offers->experiment) {
      for (const std::string& setting : one.settings) {
        if (std::string cut = describe_cut(stage.before, setting); !cut.empty()) {
          one.changes.push_back(std::move(cut));
        }
      }
    }
  }
}

// What --allow could name.
std::vector<std::string> offered_keys(const FittedRun& run) {
  std::vector<std::string> keys;
  for (std::string_view key : keys_to_allow()) {
    auto changes = [&](const Alternative& one) {
      return std::any_of(one.settings.begin(), one.settings.end(), [&](const std::string& setting) {
        return setting.find(fmt::format("{}{}", key, key == "lora" ? ".lora_alpha=" : "=")) !=
               std::string::npos;
      });
    };
    bool is_offered = std::any_of(run.stages.begin(), run.stages.end(), [&](const FittedStage& stage) {
      return stage.offers &&
             (std::any_of(stage.offers->opt_in.begin(), stage.offers->opt_in.end(), changes) ||
              std::any_of(stage.offers->experiment.begin(), stage.offers->experiment.end(), changes));
    });
    if (is_offered) {
      keys.emplace_back(key);
    }
  }
  return keys;
}

std::string closing_lines(const FitOptions& options, const FittedRun& run, const Style& style) {
  if (!run.fits()) {
    std::vector<std::string> keys = offered_keys(run);
    return keys.empty()
               ? "  Nothing that --allow could name makes it fit.\n"
               : fmt::format("  --allow KEY lets fit make such a change: {}\n", fmt::join(keys, ", "));
  }
  if (options.output.empty()) {
    return run.settings.empty() ? "" : "  -o FITTED.yml writes the recipe with these changes\n";
  }
  std::string device = options.device.gpu.empty()
                           ? (options.device.device.empty() ? "" : " --device " + options.device.device)
                           : fmt::format(" --gpu {}", shell_word(options.device.gpu));
  return fmt::format("  {} {}: snug plan {}{}{}\n", style.bold("written"), options.output,
                     shell_word(options.output), device, options.data ? " --data" : "");
}

int fit_command(const FitOptions& options) {
  FitRequest request;
  request.allowed = allowed_keys(options);
  const std::string& path = options.recipe.path;
  std::string text = read_recipe_text(path);
  std::vector<std::string> given = given_settings(options);
  request.read = [&](const std::vector<std::string>& settings) {
    return parse_recipes(text, path == kStandardInput ? "" : path, joined(given, settings));
  };
  request.limits = [&](const std::vector<Recipe>& stages) {
    return limits_of(planned_data(stages, {.with_data = options.data}));
  };
  Recipe first = request.read({}).front();
  ModelSpec spec = locate_model(first.model.path).spec;
  std::unique_ptr<Device> device = make_planning_device(options.device);
  if (!memory_limit(first, *device)) {
    throw bad_input(fmt::format(
        "{}: nothing says how much memory there is: --gpu NAME, --memory 24GB, or memory.limit does", path));
  }
  FittedRun run = fit_run(request, spec, *device);
  add_cuts(run);
  if (!options.output.empty() && run.fits()) {
    write_fitted(options, text, run);
  }
  if (options.json) {
    Json report = fit_json(run);
    for (size_t i = 0; i < run.stages.size(); ++i) {
      if (run.stages[i].offers) {
        report["stages"][i].update(misfit_json(*run.stages[i].offers));
      }
    }
    fmt::print("{}\n", json_text(report));
  } else {
    Style style = Style::for_stdout();
    fmt::print("{}{}", fit_report(run, describe_device(*device, options.device), style),
               fit_lines(closing_lines(options, run, style), style));
  }
  return run.fits() ? kExitOk : kExitDoesNotFit;
}

}  // namespace

void add_fit_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<FitOptions>();
  CLI::App* command = app.add_subcommand("fit", "Make a recipe fit a card, and say what was changed and why");
  add_recipe_arguments(*command, options->recipe);
  add_device_arguments(*command, options->device);
  add_gpu_argument(*command, options->device);
  command
      ->add_option("-o,--output", options->output,
                   "Write the recipe with the changes: comments, order and quotes stay")
      ->type_name("FITTED");
  command
      ->add_option("--allow", options->allowed,
                   fmt::format("Keys that may be changed though the result is another: {}",
                               fmt::join(keys_to_allow(), ", ")))
      ->delimiter(',')
      ->type_name("KEY,...");
  command->add_flag("--data", options->data,
                    "Read the data too, and plan for the longest batch that it can make");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "\nWhat changes no result comes first: pieces of a step, recomputation, rows of\n"
      "logits. Effective batch, length, rank, model and numerics stay as they are\n"
      "unless --allow names them; what would help is told with its price.\n"
      "All stages of a recipe are fitted at once.\n"
      "Exit code 0: it fits; 3: it does not.\n"
      "\nExamples:\n  snug fit recipes/cases/security.yml --gpu a6000\n"
      "  snug fit recipes/ship_log.yml --memory 20MB -o recipes/fitted.yml\n"
      "  snug fit recipe.yml --gpu 3090 --allow training.optimizer_states,data.max_length");
  command->callback([options, &action] { action = [options] { return fit_command(*options); }; });
}

}  // namespace snug
