// snug train RECIPE, where the recipe has stages.
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <utility>

#include "cli/run_signals.h"
#include "cli/stage_plans.h"
#include "cli/train_arguments.h"
#include "cli/version.h"
#include "cli/wait_for_device.h"
#include "compile/phases.h"
#include "data/batches/limits.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "model/locate.h"
#include "plan/speed.h"
#include "report/console.h"
#include "report/data_progress.h"
#include "report/layout.h"
#include "report/plan_report.h"
#include "report/progress.h"
#include "report/run_log.h"
#include "report/stages_report.h"
#include "report/webhooks.h"
#include "train/run_files.h"
#include "train/staged_run.h"

namespace snug {
namespace {

std::vector<LimitsOf> limits_of_data(const StagedRun& run) {
  std::vector<LimitsOf> limits;
  for (size_t i = 0; i < run.size(); ++i) {
    limits.emplace_back(DataLimits(run.recipe(i), run.data(i).train, run.data(i).read_in_evaluations()));
  }
  return limits;
}

void say_where(const TrainArguments& given, const StagedRun& run) {
  warn_of_damaged(run.damaged());
  if (given.resume && !run.goes_on() && !given.json) {
    say(fmt::format("  {} has no checkpoint to go on from: a fresh start\n", printable(run.root().string())));
  }
  for (size_t i = 0; i < run.next() && !given.json; ++i) {
    say(fmt::format("  stage {} is finished\n", run.recipe(i).stage.name));
  }
}

// True if it was stopped.
bool train_one(const TrainArguments& given, StagedRun& run, size_t stage, Backend& backend,
               const std::string& plan_text) {
  const Recipe& recipe = run.recipe(stage);
  if (!given.json) {
    say(stage_heading(recipe, stage, run.size(), Style::for_stdout()));
  }
  SpeedEstimate expected =
      estimate_speed(run.plan(stage), backend.rates(run_dtype(recipe, locate_model(recipe.model.path).spec)));
  TrainProgress progress(recipe.logging.logging_steps, given.json, expected);
  Style plain(false);
  RunLog log(version_text() + stage_heading(recipe, stage, run.size(), plain) + plan_text +
                 speed_report(expected, backend.rates_origin(), plain),
             recipe.logging.logging_steps);
  RunEvents events(stop_requested);
  events.listen(progress);
  events.listen(log);
  Webhooks webhooks(recipe, read_webhook_urls(recipe.logging), events);
  events.listen(webhooks);
  TrainSummary summary = run.train(stage, backend, events);
  if (!given.json) {
    say(progress.finished(summary, run.folder(stage).string()));
  }
  return summary.interrupted;
}

}  // namespace

int train_stages(const TrainArguments& given, std::vector<Recipe> stages) {
  for (const Recipe& stage : stages) {
    read_webhook_urls(stage.logging);  // what is wrong with them is said now, and not hours later
  }
  LocatedModel model = locate_model_files(stages.front().model.path);
  if (std::optional<int> ended = wait_to_open(given)) {
    return *ended;
  }
  std::unique_ptr<Backend> backend = make_backend(given.device);
  Style style = Style::for_stdout();
  // If not even the smallest batches fit, there is no need to read the data.
  LimitsOf least = [&](const Recipe& one) { return smallest_limits(one, model.spec); };
  StagePlans smallest(stages, model.spec, *backend, std::vector<LimitsOf>(stages.size(), least));
  if (!smallest.fit()) {
    StagePlans whole(stages, model.spec, *backend, std::vector<LimitsOf>(stages.size()));
    if (!given.json) {
      say(whole.report(describe_device(*backend, given.device), style) + "\n");
    }
    say(whole.misfit_report(Style::for_stderr()), stderr);
    return kExitDoesNotFit;
  }
  StagedRun run(std::move(stages), model,
                {.overwrite = given.overwrite,
                 .resume = given.resume.has_value(),
                 .checkpoint = given.resume.value_or("")});
  say_where(given, run);
  {
    DataProgressLine progress;
    run.read_data([&](const DataProgress& now) { progress.show(now); });
  }
  StagePlans plans(run.recipes(), model.spec, *backend, limits_of_data(run));
  if (size_t i = run.next(); i < run.size() && run.resumes(i) && !plans.plans()[i].fits()) {
    std::optional<OtherSplit> other = find_other_split(run.recipe(i), model.spec, *backend, plans.limits(i));
    if (other) {
      say_warning(other->warning);
      run.split_otherwise(i, *other);
      plans.replace(i, other->recipe, other->plan);
    }
  }
  if (!given.json) {
    for (size_t i = 0; i < run.size(); ++i) {
      say(fmt::format("  {}\n", style.bold(run.recipe(i).stage.name)));
      print_data(run.data(i), run.recipe(i).data, style);
    }
    say(plans.report(describe_device(*backend, given.device), style, run.next()));
  }
  std::string plan_text = plans.report(describe_device(*backend, given.device), Style(false), run.next());
  if (!plans.fit(run.next())) {
    say(plans.misfit_report(Style::for_stderr()), stderr);
    return kExitDoesNotFit;
  }
  int64_t wanted_bytes = 0;
  for (size_t i = run.next(); i < run.size(); ++i) {
    wanted_bytes = std::max(wanted_bytes, plans.plans()[i].device_bytes());
  }
  if (std::optional<int> ended = wait_for_device(given, backend->label(), wanted_bytes)) {
    return *ended;
  }
  run.set_plans(plans.chosen(), plans.take());
  catch_stop_signals();
  run.begin();
  bool stopped = false;
  for (size_t i = run.next(); i < run.size() && !stopped; ++i) {
    stopped = train_one(given, run, i, *backend, plan_text);
  }
  Forgetting forgetting = run.finish();
  if (given.json) {
    say(read_text_file(run.root() / kSummaryFile));
  } else {
    say(forgetting_report(forgetting, Style::for_stdout()));
    say(stopped ? fmt::format("  go on  {}\n", resume_command(given))
                : fmt::format("\n  saved  {}\n", run.root().string()));
  }
  return stopped ? kExitStopped : kExitOk;
}

}  // namespace snug
