// snug plan RECIPE
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "cli/make_backend.h"
#include "model/locate.h"
#include "plan/fit.h"
#include "plan/plan_json.h"
#include "recipe/parse.h"
#include "report/plan_report.h"

namespace snug {
namespace {

Json alternatives_json(const std::vector<Alternative>& alternatives) {
  Json list = Json::array();
  for (const Alternative& alternative : alternatives) {
    list.push_back({{"settings", alternative.settings}, {"peak_bytes", alternative.peak_bytes}});
  }
  return list;
}

int plan_command(const RecipeArguments& arguments, const DeviceArguments& device, bool json) {
  Recipe recipe = read_recipe(arguments.path, all_overrides(arguments));
  ModelSpec spec = locate_model(recipe.model.path).spec;
  std::unique_ptr<Backend> chosen = make_planning_backend(device, recipe.memory.limit_bytes.has_value());
  const Backend& backend = *chosen;
  Plan plan = plan_training(recipe, spec, backend);
  std::vector<Alternative> alternatives;
  if (!plan.fits()) {
    alternatives = find_alternatives(recipe, spec, backend);
  }
  if (json) {
    Json report = plan_to_json(plan);
    if (!plan.fits()) {
      report["alternatives"] = alternatives_json(alternatives);
    }
    fmt::print("{}\n", report.dump(2));
  } else {
    Style style = Style::for_stdout();
    fmt::print("{}", plan_report(plan, recipe, spec, style));
    if (!plan.fits()) {
      fmt::print("{}", does_not_fit_report(plan, alternatives, style));
    }
  }
  return plan.fits() ? kExitOk : kExitDoesNotFit;
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  struct Options {
    RecipeArguments recipe;
    DeviceArguments device;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("plan", "Every byte of a run, before anything is loaded");
  add_recipe_arguments(*command, options->recipe);
  add_device_arguments(*command, options->device);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "\nNeeds the recipe and the model's config.json; no weights, no data.\n"
      "Exit code 0: it fits; 3: it does not.\n"
      "\nExamples:\n  snug plan recipes/ship_log.yml --memory 64MB\n"
      "  snug plan recipes/ship_log.yml --set lora.r=64 --set memory.recompute=full --json");
  command->callback([options, &action] {
    action = [options] { return plan_command(options->recipe, options->device, options->json); };
  });
}

}  // namespace snug
