// snug train RECIPE
#include <fmt/format.h>

#include <csignal>
#include <memory>

#include "cli/commands.h"
#include "cli/launcher.h"
#include "cli/make_backend.h"
#include "compile/phases.h"
#include "data/batches/limits.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "model/locate.h"
#include "plan/fit.h"
#include "plan/plan_json.h"
#include "plan/speed.h"
#include "recipe/parse.h"
#include "report/data_progress.h"
#include "report/data_report.h"
#include "report/plan_report.h"
#include "report/progress.h"

namespace snug {
namespace {

volatile std::sig_atomic_t stop_requested = 0;

// The first interrupt ends the run after its step and saves; the second ends the process.
extern "C" void on_interrupt(int signal_number) {
  stop_requested = 1;
  std::signal(signal_number, SIG_DFL);
}

void print_data(const RunData& data, const DataSection& section, const Style& style) {
  fmt::print("  {}    {}\n", style.dim("data"), printable_lines(describe(data.train)));
  if (data.eval) {
    fmt::print("  {}    {}\n", style.dim("eval"), printable_lines(describe(*data.eval)));
  }
  fmt::print("{}", data_warning_lines(data, section, style));
}

int report_misfit(const Plan& plan, const Alternatives& alternatives) {
  fmt::print(stderr, "{}", does_not_fit_report(plan, alternatives, Style::for_stderr()));
  return kExitDoesNotFit;
}

int train_command(const RecipeArguments& arguments, const DeviceArguments& device, bool json) {
  refuse_several_ranks();
  Recipe recipe = read_recipe(arguments.path, all_overrides(arguments));
  LocatedModel model = locate_model_files(recipe.model.path);
  const ModelSpec& spec = model.spec;
  std::unique_ptr<Backend> chosen = make_backend(device);
  Backend& backend = *chosen;
  Style style = Style::for_stdout();
  // If not even the smallest batches fit, there is no need to read the data.
  LimitsOf least_limits = [&](const Recipe& one) { return smallest_limits(one, spec); };
  if (Plan least = plan_training(recipe, spec, backend, least_limits); !least.fits()) {
    Plan plan = plan_training(recipe, spec, backend);
    if (!json) {
      fmt::print("{}\n", plan_report(plan, recipe, spec, describe_device(backend, device), style));
    }
    return report_misfit(plan, find_alternatives(recipe, spec, backend));
  }
  require_writable_folder(recipe.output_dir);
  TrainInputs inputs = [&] {
    DataProgressLine progress;
    return read_train_inputs(recipe, model, [&](const DataProgress& now) { progress.show(now); });
  }();
  DataLimits limits(recipe, inputs.data.train, inputs.data.eval ? &*inputs.data.eval : nullptr);
  Plan plan = plan_training(recipe, spec, backend, limits);
  SpeedEstimate expected = estimate_speed(plan, recipe.training.gradient_accumulation_steps,
                                          backend.rates(run_dtype(recipe, spec)));
  if (!json) {
    print_data(inputs.data, recipe.data, style);
    fmt::print("{}{}\n", plan_report(plan, recipe, spec, describe_device(backend, device), style),
               speed_report(expected, style));
  }
  if (!plan.fits()) {
    return report_misfit(plan, find_alternatives(recipe, spec, backend, limits));
  }
  write_file_atomically(std::filesystem::path(recipe.output_dir) / "plan.json",
                        plan_to_json(plan).dump(2) + "\n");

  std::signal(SIGINT, on_interrupt);
  std::signal(SIGTERM, on_interrupt);
  TrainProgress progress(recipe.logging.logging_steps, json, stop_requested);
  TrainSummary summary = train(inputs, plan, backend, progress);
  if (json) {
    fmt::print("{}", read_text_file(std::filesystem::path(recipe.output_dir) / "summary.json"));
  } else {
    fmt::print("{}", progress.finished(summary, expected, recipe.output_dir));
  }
  return kExitOk;
}

}  // namespace

void add_train_command(CLI::App& app, Action& action) {
  struct Options {
    RecipeArguments recipe;
    DeviceArguments device;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("train", "Train by a recipe; writes the adapter or the model");
  add_recipe_arguments(*command, options->recipe);
  add_device_arguments(*command, options->device);
  command->add_flag("--json", options->json, "Print the summary as JSON at the end, and nothing before");
  command->footer(
      "\nCtrl-C ends the run after the current step and keeps what was learned.\n"
      "\nExamples:\n  snug train recipes/ship_log.yml\n"
      "  snug train recipes/ship_log.yml --memory 2GB --set training.max_steps=20 --set output_dir=runs/try");
  command->callback([options, &action] {
    action = [options] { return train_command(options->recipe, options->device, options->json); };
  });
}

}  // namespace snug
