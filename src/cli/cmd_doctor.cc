// snug doctor [RECIPE]
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/machine_memory.h"
#include "cli/commands.h"
#include "cli/make_backend.h"
#include "doctor/card_checks.h"
#include "doctor/machine_checks.h"
#include "doctor/recipe_checks.h"
#include "io/json.h"
#include "io/printable.h"
#include "recipe/parse.h"

namespace snug {
namespace {

struct DoctorOptions {
  RecipeArguments recipe;
  DeviceArguments device;
  bool json = false;
};

int exit_code(const std::vector<Check>& checks) {
  const Check* problem = first_problem(checks);
  if (problem == nullptr) {
    return kExitOk;
  }
  switch (problem->kind) {
    case ProblemKind::environment:
      return kExitEnvironment;
    case ProblemKind::bad_input:
      return kExitBadInput;
    case ProblemKind::does_not_fit:
      return kExitDoesNotFit;
  }
  return kExitEnvironment;
}

void append(std::vector<Check>& checks, std::vector<Check> more) {
  checks.insert(checks.end(), std::make_move_iterator(more.begin()), std::make_move_iterator(more.end()));
}

// How fast it is. One that cannot be opened now may be well: it is full.
void look_at_card_rates(const DoctorOptions& options, std::unique_ptr<Backend>& backend,
                        std::vector<Check>& checks) {
  Check rates = check("rates", [&] {
    backend = make_backend(options.device);
    return check_rates(*backend);
  });
  rates.status = std::min(rates.status, CheckStatus::warning);
  checks.push_back(std::move(rates));
}

void look_at_recipe(const DoctorOptions& options, std::unique_ptr<Backend> backend,
                    std::vector<Check>& checks) {
  std::vector<Recipe> stages;
  checks.push_back(check("recipe", [&] {
    stages = read_recipes(options.recipe.path, all_overrides(options.recipe));
    std::string text = printable(options.recipe.path);
    text += stages.front().stage.name.empty() ? "" : fmt::format(", {} stages", stages.size());
    return Check{.subject = "recipe", .text = text};
  }));
  if (stages.empty()) {
    return;
  }
  std::unique_ptr<Device> planned;
  Check opened = check("device", [&] {
    backend = backend ? std::move(backend) : make_backend(options.device);
    return Check{};
  });
  if (!backend) {
    checks.push_back(opened);
    planned = make_planning_device({.device = "cuda", .tf32 = false, .gpu = ""});
  }
  const Device& device = backend ? static_cast<const Device&>(*backend) : *planned;
  append(checks, check_recipes(stages, device, backend.get()));
}

int doctor_command(const DoctorOptions& options) {
  bool needs_card = build_has_cuda() && options.device.device != "cpu";
  std::vector<Check> checks =
      check_cards(cuda::nvml(), needs_card, [](unsigned pid) { return read_process(pid); });
  std::unique_ptr<Backend> backend;
  if (needs_card && first_problem(checks) == nullptr) {
    look_at_card_rates(options, backend, checks);
  }
  if (!needs_card) {
    checks.push_back(check_processor(cpu_kernels(), processor_has_avx2()));
  }
  checks.push_back(check_memory(machine_memory_bytes(), available_memory_bytes()));
  append(checks, check_limits(read_process_limits(), 0));
  if (!options.recipe.path.empty()) {
    look_at_recipe(options, std::move(backend), checks);
  }
  if (options.json) {
    fmt::print("{}\n", json_text(doctor_json(checks)));
  } else {
    fmt::print("{}", doctor_report(checks, Style::for_stdout()));
  }
  return exit_code(checks);
}

}  // namespace

void add_doctor_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<DoctorOptions>();
  CLI::App* command = app.add_subcommand(
      "doctor", "Is this machine fit for a run? Cards and who is on them, limits, data, a step");
  add_recipe_arguments(*command, options->recipe);
  command->get_option("recipe")->required(false);
  add_device_arguments(*command, options->device);
  if (build_has_cuda()) {
    command->add_flag("--calibrate", options->device.measure_again,
                      "Measure the card's rates again, which takes a second, and remember them");
  }
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "\nA line for each thing that was looked at: ok, warning or problem, with a remedy.\n"
      "With a recipe also its model, the first rows of its data by its template, the first\n"
      "tensors, its plan, the disk of output_dir, and one step at the planned sizes (on the\n"
      "processor only where that takes seconds). Nothing is written but, in the user's cache,\n"
      "how fast the card was when it was first measured.\n"
      "Exit code 0: no problem (warnings aside); else that of the first problem: 1 the\n"
      "machine's, 2 the recipe's or the data's, 3 it does not fit.\n"
      "\nExamples:\n  snug doctor\n  snug doctor recipes/ship_log.yml\n"
      "  snug doctor recipes/ship_log.yml --json && snug train recipes/ship_log.yml");
  command->callback([options, &action] { action = [options] { return doctor_command(*options); }; });
}

}  // namespace snug
