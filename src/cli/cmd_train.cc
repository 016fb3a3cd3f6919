// snug train RECIPE
#include <fmt/format.h>

#include <charconv>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "base/error.h"
#include "cli/launcher.h"
#include "cli/run_signals.h"
#include "cli/train_arguments.h"
#include "cli/version.h"
#include "cli/wait_for_device.h"
#include "compile/phases.h"
#include "data/batches/limits.h"
#include "fit/alternatives.h"
#include "fit/choice.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "io/shell_word.h"
#include "model/locate.h"
#include "plan/speed.h"
#include "plan/training.h"
#include "recipe/parse.h"
#include "report/console.h"
#include "report/data_progress.h"
#include "report/data_report.h"
#include "report/layout.h"
#include "report/plan_report.h"
#include "report/progress.h"
#include "report/run_log.h"
#include "report/webhooks.h"
#include "train/checkpoint.h"
#include "train/other_split.h"
#include "train/run_files.h"
#include "train/run_folder.h"

namespace snug {
namespace {

int64_t read_minutes(const std::string& text) {
  int64_t minutes = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), minutes);
  bool is_number = error == std::errc() && end == text.data() + text.size() && minutes > 0;
  if (!is_number && !text.empty()) {
    throw bad_input(fmt::format("--wait is {}: expected minutes, as in --wait=120", in_quotes(text)));
  }
  return minutes;
}

int report_misfit(const Plan& plan, const Alternatives& alternatives) {
  say(does_not_fit_report(plan, alternatives, Style::for_stderr()), stderr);
  return kExitDoesNotFit;
}

// Where the run goes on, if it is to; a recipe in force then takes the checkpoint's split and tiling.
std::optional<ResumePoint> find_start(const TrainArguments& given, Recipe& recipe) {
  if (!given.resume) {
    return std::nullopt;
  }
  std::vector<std::string> damaged;
  std::optional<ResumePoint> point = given.resume->empty() ? find_resume_point(recipe.output_dir, damaged)
                                                           : read_resume_point(*given.resume);
  warn_of_damaged(damaged);
  if (point) {
    recipe = recipe_to_go_on(recipe, *point);
  } else if (!given.json) {
    say(fmt::format("  {} has no checkpoint to go on from: a fresh start\n", printable(recipe.output_dir)));
  }
  return point;
}

int train_command(const TrainArguments& given) {
  const RecipeArguments& arguments = given.recipe;
  bool json = given.json;
  refuse_several_ranks();
  outlive_write_signals();
  std::vector<Recipe> recipes = read_recipes(arguments.path, all_overrides(arguments));
  if (!recipes.front().stage.name.empty()) {
    return train_stages(given, std::move(recipes));
  }
  Recipe& recipe = recipes.front();
  std::vector<std::string> webhook_urls = read_webhook_urls(recipe.logging);
  std::optional<ResumePoint> start = find_start(given, recipe);
  LocatedModel model = locate_model_files(recipe.model.path);
  const ModelSpec& spec = model.spec;
  if (std::optional<int> ended = wait_to_open(given)) {
    return *ended;
  }
  std::unique_ptr<Backend> chosen = make_backend(given.device);
  Backend& backend = *chosen;
  Style style = Style::for_stdout();
  // If not even the smallest batches fit, there is no need to read the data. A run that goes on may be split
  // otherwise where its checkpoint's split does not fit.
  LimitsOf least_limits = [&](const Recipe& one) { return smallest_limits(one, spec); };
  if (!start && !choose_plan(recipe, spec, backend, least_limits).plan.fits()) {
    FittedRecipe whole = choose_plan(recipe, spec, backend);
    const Plan& plan = whole.plan;
    if (!json) {
      say(plan_report(plan, whole.recipe, spec, describe_device(backend, given.device), style) + "\n");
    }
    return report_misfit(plan, find_alternatives(recipe, spec, backend));
  }
  RunFolder folder({.folder = recipe.output_dir,
                    .model_folder = model.folder,
                    .overwrite = given.overwrite,
                    .resume = given.resume.has_value()});
  TrainInputs inputs = [&] {
    DataProgressLine progress;
    return read_train_inputs(recipe, model, [&](const DataProgress& now) { progress.show(now); });
  }();
  inputs.resume = std::move(start);
  DataLimits limits(recipe, inputs.data.train, inputs.data.read_in_evaluations());
  const Recipe asked = recipe;
  FittedRecipe fitted = choose_plan(asked, spec, backend, limits);
  const Plan& plan = fitted.plan;
  inputs.recipe = recipe = fitted.recipe;
  if (!plan.fits() && inputs.resume) {
    if (std::optional<OtherSplit> other = find_other_split(recipe, spec, backend, limits)) {
      say_warning(other->warning);
      inputs.resume->progress.warnings.push_back(other->warning);
      inputs.recipe = recipe = std::move(other->recipe);
      fitted.plan = std::move(other->plan);
      fitted.is_chosen = false;  // the warning tells
    }
  }
  SpeedEstimate expected = estimate_speed(plan, backend.rates(run_dtype(recipe, spec)));
  if (!json) {
    print_data(inputs.data, recipe.data, style);
    say(plan_report(plan, recipe, spec, describe_device(backend, given.device), style) +
        choice_report(fitted, style) + speed_report(expected, backend.rates_origin(), style) + "\n");
  }
  if (!plan.fits()) {
    return report_misfit(plan, find_alternatives(asked, spec, backend, limits));
  }
  if (std::optional<int> ended = wait_for_device(given, backend.label(), plan.device_bytes())) {
    return *ended;
  }
  catch_stop_signals();
  TrainProgress progress(recipe.logging.logging_steps, json, expected);
  Style plain(false);
  RunLog log(version_text() + plan_report(plan, recipe, spec, describe_device(backend, given.device), plain) +
                 choice_report(fitted, plain) + speed_report(expected, backend.rates_origin(), plain),
             recipe.logging.logging_steps);
  RunEvents events(stop_requested);
  events.listen(progress);
  events.listen(log);
  Webhooks webhooks(recipe, webhook_urls, events);
  events.listen(webhooks);
  TrainSummary summary = train(inputs, plan, backend, events, folder);
  say(json ? read_text_file(folder.file(kSummaryFile)) : progress.finished(summary, recipe.output_dir));
  if (summary.interrupted && !json && !summary.checkpoint.empty()) {
    say(fmt::format("  go on  {}\n", resume_command(given)));
  }
  return summary.interrupted ? kExitStopped : kExitOk;
}

}  // namespace

void print_data(const RunData& data, const DataSection& section, const Style& style) {
  auto say_line = [&](const char* label, const Dataset& dataset) {
    say(fit_lines(fmt::format("  {}    {}\n", style.dim(label), printable_lines(describe(dataset))), style));
  };
  say_line("data", data.train);
  if (data.eval) {
    say_line("eval", *data.eval);
  }
  say(data_warning_lines(data, section, style));
}

void warn_of_damaged(const std::vector<std::string>& checkpoints) {
  for (const std::string& line : checkpoints) {
    say_warning(line);
  }
}

void say_warning(const std::string& line) {
  say(fmt::format("  {} {}\n", Style::for_stderr().bad("warning:"), printable_lines(line)), stderr);
}

std::string resume_command(const TrainArguments& given) {
  std::string command = "snug train " + shell_word(given.recipe.path);
  if (!given.device.device.empty()) {
    command += " --device " + shell_word(given.device.device);
  }
  command += given.device.tf32 ? " --tf32" : "";
  command += given.threads > 0 ? fmt::format(" --threads {}", given.threads) : "";
  if (!given.recipe.memory.empty()) {
    command += " --memory " + shell_word(given.recipe.memory);
  }
  for (const std::string& setting : given.recipe.overrides) {
    command += " --set " + shell_word(setting);
  }
  return command + " --resume";
}

void add_train_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<TrainArguments>();
  CLI::App* command = app.add_subcommand("train", "Train by a recipe; writes the adapter or the model");
  add_recipe_arguments(*command, options->recipe);
  add_device_arguments(*command, options->device);
  command->add_flag("--json", options->json, "Print the summary as JSON at the end, and nothing before");
  command->add_flag("--overwrite", options->overwrite,
                    "Remove the files of an earlier run in output_dir (those that its manifest.json lists)");
  command
      ->add_option_function<std::string>(
          "--resume", [options](const std::string& folder) { options->resume = folder; },
          "Go on from the newest whole checkpoint of output_dir (a fresh start where there is none), or from "
          "--resume=CHECKPOINT")
      ->expected(0, 1)
      ->type_name("[CHECKPOINT]");
  command
      ->add_option_function<std::string>(
          "--wait", [options](const std::string& text) { options->wait_minutes = read_minutes(text); },
          "Begin when the device has room for the plan, and say who holds it meanwhile; --wait=MINUTES: give "
          "up "
          "after so long (exit code 3)")
      ->expected(0, 1)
      ->type_name("[MINUTES]");
  command->footer(
      "\nCtrl-C (SIGINT, SIGTERM, SIGHUP, SIGUSR1) drops the step in progress, saves a\n"
      "checkpoint and ends the run: exit code 4. A second one ends it at once, with the\n"
      "last checkpoint as it was.\n"
      "A recipe with stages trains them one behind the other, each in its own folder of\n"
      "output_dir; --resume goes on in the stage that was not finished. --set KEY=VALUE is\n"
      "for all of them, --set stages.NAME.KEY=VALUE for one.\n"
      "\nExamples:\n  snug train recipes/ship_log.yml\n"
      "  snug train recipes/three_stages.yml\n"
      "  snug train recipes/ship_log.yml --wait=120\n"
      "  snug train recipes/ship_log.yml --memory 2GB \\\n"
      "      --set training.max_steps=20 --set output_dir=runs/try");
  command->callback([options, &app, &action] {
    options->threads = app.get_option("--threads")->as<int>();
    action = [options] { return train_command(*options); };
  });
}

}  // namespace snug
