// snug diff A B
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/argument_checks.h"
#include "cli/commands.h"
#include "cli/make_backend.h"
#include "cli/stage_plans.h"
#include "compile/phases.h"
#include "io/json.h"
#include "io/printable.h"
#include "model/locate.h"
#include "plan/speed.h"
#include "recipe/parse.h"
#include "report/diff_report.h"
#include "train/run_files.h"

namespace snug {
namespace {

struct DiffOptions {
  std::string a;
  std::string b;
  DeviceArguments device;
  std::string memory;
  bool json = false;

  // Whether plans are to be made for what the command line says.
  bool names_device() const { return !device.device.empty() || !device.gpu.empty() || !memory.empty(); }
};

// A recipe, or what a run was planned and trained by.
struct Side {
  std::string path;
  std::vector<Recipe> recipes;
  std::vector<RunRecord> runs;  // empty: a recipe
};

Side read_side(const std::string& path) {
  Side side{.path = path, .recipes = {}, .runs = {}};
  if (holds_run(path)) {
    side.runs = RunReader().read(path);
    for (const RunRecord& run : side.runs) {
      side.recipes.push_back(run.recipe);
    }
  } else if (std::filesystem::is_directory(path)) {
    throw bad_input(
        fmt::format("{}: no run of snug in this folder: it has no {}", in_quotes(path), kManifest));
  } else {
    side.recipes = read_recipes(path);
  }
  if (side.recipes.empty()) {
    throw bad_input(fmt::format("{}: no stage of this run has begun", in_quotes(path)));
  }
  return side;
}

// Where plans are made for.
struct Place {
  DeviceArguments device;
  std::optional<int64_t> limit_bytes;  // in place of the recipes'
  std::optional<int64_t> usual_bytes;  // where they have none
};

// As the command line says; else what a run on the other side was planned for.
Place place_beside(const Side& other, const DiffOptions& options) {
  Place place{.device = options.device, .limit_bytes = std::nullopt, .usual_bytes = std::nullopt};
  if (!options.memory.empty()) {
    place.limit_bytes = parse_bytes(options.memory);
    if (!place.limit_bytes || *place.limit_bytes <= 0) {
      throw bad_input(
          fmt::format("--memory is {}: expected a size such as 24GB or 22.3GiB", in_quotes(options.memory)));
    }
  }
  if (!other.runs.empty() && !options.names_device()) {
    const PlanFigures& plan = other.runs.front().plan;
    place.device.device = plan.backend;
    place.usual_bytes = plan.limit_bytes;
  }
  return place;
}

// A recipe's limit is for the card that it was written for; one that is named takes its place.
Recipe placed(Recipe recipe, const Place& place) {
  if (place.limit_bytes || !place.device.gpu.empty()) {
    recipe.memory.limit_bytes = place.limit_bytes;
  } else if (!recipe.memory.limit_bytes) {
    recipe.memory.limit_bytes = place.usual_bytes;
  }
  return recipe;
}

Compared plan_side(const Side& side, const Place& place) {
  ModelSpec spec = locate_model(side.recipes.front().model.path).spec;
  std::unique_ptr<Device> device = make_planning_device(place.device);
  std::vector<Recipe> recipes;
  for (const Recipe& recipe : side.recipes) {
    recipes.push_back(placed(recipe, place));
  }
  StagePlans plans(recipes, spec, *device, std::vector<LimitsOf>(recipes.size()));
  Compared compared{.path = side.path, .stages = {}};
  for (size_t i = 0; i < recipes.size(); ++i) {
    const Plan& plan = plans.plans()[i];
    compared.stages.push_back({.asked = side.recipes[i],
                               .fitted = plans.chosen()[i],
                               .plan = figures_of(plan),
                               .speed = estimate_speed(plan, device->rates(run_dtype(recipes[i], spec))),
                               .run = side.runs.empty() ? std::nullopt : std::optional(side.runs[i])});
  }
  return compared;
}

// By the plan that the run has kept.
Compared recorded_side(const Side& side) {
  Compared compared{.path = side.path, .stages = {}};
  for (const RunRecord& run : side.runs) {
    std::filesystem::path file = run.folder / kPlanFile;  // with its layout
    compared.stages.push_back({.asked = run.recipe,
                               .fitted = run.recipe,
                               .plan = read_plan_figures(read_json(file), file.string()),
                               .speed = {},
                               .run = run});
  }
  return compared;
}

Compared compare(const Side& side, const Side& other, const DiffOptions& options) {
  bool is_recorded = !side.runs.empty() && !options.names_device();
  return is_recorded ? recorded_side(side) : plan_side(side, place_beside(other, options));
}

int diff_command(const DiffOptions& options) {
  Side a = read_side(options.a);
  Side b = read_side(options.b);
  Compared first = compare(a, b, options);
  Compared second = compare(b, a, options);
  if (options.json) {
    fmt::print("{}\n", json_text(diff_json(first, second)));
  } else {
    fmt::print("{}", diff_report(first, second, Style::for_stdout()));
  }
  return kExitOk;
}

}  // namespace

void add_diff_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<DiffOptions>();
  CLI::App* command = app.add_subcommand(
      "diff", "What differs between two recipes or runs, and what that does to the memory");
  command->add_option("a", options->a, "A recipe, or the folder of a run")->required();
  command->add_option("b", options->b, "Another")->required();
  command->add_option("--memory", options->memory, "Plan both for so much memory, e.g. 24GB or 22.3GiB")
      ->check(find_emptiness);
  add_device_arguments(*command, options->device);
  command
      ->add_option("--gpu", options->device.gpu,
                   "Plan both for a card that is not here, by its name (snug docs cards)")
      ->check(find_emptiness)
      ->excludes("--device");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "\nThe first line says which of them fits, and what makes the difference. Then:\n"
      "settings (defaults included), parameters, bytes by role and by phase, the time\n"
      "of a step where a card is named; of runs also versions, device, driver,\n"
      "fingerprints of model and data, losses and speed.\n"
      "A run is compared by the plan in its folder, and a recipe beside it is planned\n"
      "for the same kind of device; with --device, --gpu or --memory all are planned anew.\n"
      "\nExamples:\n"
      "  snug diff recipes/cases/parsing.yml recipes/cases/parsing_mtup.yml \\\n"
      "      --gpu \"Quadro RTX 6000\"\n"
      "  snug diff runs/monday runs/tuesday\n"
      "  snug diff recipes/ship_log.yml runs/ship_log --json");
  command->callback([options, &action] { action = [options] { return diff_command(*options); }; });
}

}  // namespace snug
