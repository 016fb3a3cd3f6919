// snug plan RECIPE
#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backend/cuda_plan/catalogue.h"
#include "cli/commands.h"
#include "cli/data_limits.h"
#include "cli/make_backend.h"
#include "cli/stage_plans.h"
#include "compile/phases.h"
#include "explain/python_stack.h"
#include "fit/alternatives.h"
#include "fit/choice.h"
#include "fit/what_if.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "model/locate.h"
#include "ops/table.h"
#include "plan/plan_json.h"
#include "plan/run_forecast.h"
#include "plan/speed.h"
#include "plan/training.h"
#include "recipe/parse.h"
#include "report/layout.h"
#include "report/memory_picture.h"
#include "report/plan_page.h"
#include "report/plan_report.h"
#include "report/python_stack_report.h"
#include "report/run_report.h"
#include "report/what_if_report.h"

namespace snug {
namespace {

constexpr int64_t kMostRows = 1'000'000'000'000;

struct PlanOptions {
  RecipeArguments recipe;
  DeviceArguments device;
  DataQuestion data;
  std::string price;  // of an hour; "": what the catalogue says
  bool json = false;
  bool programs = false;
  std::string page;  // where one goes; "" for none
  bool picture = false;
  std::string as;  // another program whose memory is estimated beside it; "" for none
  bool what_if = false;
};

// A recipe's limit is for the card that it was written for; a card named on the command line takes its place.
void follow_card(Recipe& recipe, const PlanOptions& options) {
  std::vector<std::string> given = all_overrides(options.recipe);
  bool limited = std::any_of(given.begin(), given.end(),
                             [](const std::string& one) { return one.starts_with("memory.limit="); });
  if (!options.device.gpu.empty() && !limited) {
    recipe.memory.limit_bytes.reset();
  }
}

void print_programs(const Plan& plan) {
  for (const PhasePlan& phase : plan.phases) {
    fmt::print("{}", to_text(phase.program));
  }
}

void write_page(const PlanOptions& options, const Recipe& recipe, const std::vector<NamedPlan>& plans,
                const std::string& about) {
  if (options.page.empty()) {
    return;
  }
  std::string method = recipe.lora ? fmt::format("LoRA r={}", recipe.lora->r) : "full fine-tuning";
  write_file_atomically(options.page,
                        plan_page(fmt::format("{}, {}", recipe.model.path, method), about, plans));
  if (!options.json && !options.programs) {
    fmt::print("  page    {}\n", options.page);
  }
}

std::optional<Price> price_of(const PlanOptions& options) {
  if (!options.price.empty()) {
    return parse_price(options.price);
  }
  return options.device.gpu.empty() ? std::nullopt : catalogue_price(find_catalogue_card(options.device.gpu));
}

std::string stacks_text(const Recipe& asked, const ModelSpec& spec, const Plan& plan, const Style& style) {
  return python_stacks_report(usual_python_stacks(asked, spec, plan), plan.peak_bytes(), plan.limit_bytes,
                              style);
}

// Below the table of stages: what was asked for of each.
void print_pictures(const PlanOptions& options, const std::vector<Recipe>& stages, const ModelSpec& spec,
                    const std::vector<Plan>& plans, const Style& style) {
  for (size_t i = 0; i < stages.size(); ++i) {
    std::string text;
    if (options.picture) {
      text += memory_picture(plans[i], style);
    }
    if (!options.as.empty()) {
      text += stacks_text(stages[i], spec, plans[i], style);
    }
    if (!text.empty()) {
      fmt::print("\n  stage {}\n{}", style.bold(stages[i].stage.name), text);
    }
  }
}

int plan_stages(const PlanOptions& options, const std::vector<Recipe>& stages) {
  ModelSpec spec = locate_model(stages.front().model.path).spec;
  std::unique_ptr<Device> device = make_planning_device(options.device);
  std::optional<Price> price = price_of(options);
  std::vector<PlannedData> data = planned_data(stages, options.data);
  StagePlans plans(stages, spec, *device, limits_of(data));
  std::vector<RunForecast> runs;
  std::vector<std::string> names;
  for (size_t i = 0; i < stages.size(); ++i) {
    runs.push_back(forecast_run(plans.plans()[i], plans.chosen()[i], data[i].length,
                                device->rates(run_dtype(stages[i], spec))));
    names.push_back(stages[i].stage.name);
  }
  if (options.programs) {
    for (size_t i = 0; i < stages.size(); ++i) {
      fmt::print("stage {}\n", stages[i].stage.name);
      print_programs(plans.plans()[i]);
    }
  } else if (options.json) {
    Json report = plans.to_json();
    if (!options.device.gpu.empty()) {
      report["gpu"] = find_catalogue_card(options.device.gpu).name;
    }
    for (size_t i = 0; i < stages.size(); ++i) {
      report["stages"][i]["run"] = run_json(runs[i], price);
      if (!options.as.empty()) {
        report["stages"][i]["as_transformers"] =
            python_stacks_json(usual_python_stacks(stages[i], spec, plans.plans()[i]));
      }
    }
    report["run"] = stages_run_json(runs, price);
    fmt::print("{}\n", json_text(report));
  } else {
    Style style = Style::for_stdout();
    fmt::print("{}{}{}", plans.report(describe_device(*device, options.device), style),
               stages_run_report(runs, names, price, style), plans.misfit_report(style));
    print_pictures(options, stages, spec, plans.plans(), style);
  }
  std::vector<NamedPlan> named;
  for (size_t i = 0; i < stages.size(); ++i) {
    named.push_back({names[i], &plans.plans()[i], run_sentence(runs[i], price)});
  }
  std::string whole = stages_run_sentence(runs, price);
  write_page(options, stages.front(), named,
             describe_device(*device, options.device) + (whole.empty() ? "" : "; " + whole));
  return plans.fit() ? kExitOk : kExitDoesNotFit;
}

// A table of remedies for each stage, or for a recipe without any.
int compare_remedies(const PlanOptions& options, const std::vector<Recipe>& stages) {
  ModelSpec spec = locate_model(stages.front().model.path).spec;
  std::unique_ptr<Device> device = make_planning_device(options.device);
  std::vector<LimitsOf> limits = limits_of(planned_data(stages, options.data));
  Style style = Style::for_stdout();
  Json all = Json::array();
  if (!options.json) {
    fmt::print("{}", fit_lines(fmt::format("  {}  {}\n", style.dim("device"),
                                           describe_device(*device, options.device)),
                               style));
  }
  for (size_t i = 0; i < stages.size(); ++i) {
    const std::string& name = stages[i].stage.name;
    WhatIf found = try_remedies(stages[i], spec, *device, limits[i]);
    if (!options.json) {
      fmt::print("{}", what_if_report(found, name, style));
      continue;
    }
    all.push_back(what_if_json(found));
    if (!name.empty()) {
      all.back()["stage"] = name;
    }
  }
  if (options.json) {
    fmt::print("{}\n", json_text(stages.front().stage.name.empty() ? all.front() : Json{{"stages", all}}));
  }
  return kExitOk;
}

int plan_command(const PlanOptions& options) {
  std::vector<Recipe> recipes = read_recipes(options.recipe.path, all_overrides(options.recipe));
  for (Recipe& one : recipes) {
    follow_card(one, options);
  }
  if (options.what_if) {
    return compare_remedies(options, recipes);
  }
  const Recipe& asked = recipes.front();
  if (!asked.stage.name.empty()) {
    return plan_stages(options, recipes);
  }
  ModelSpec spec = locate_model(asked.model.path).spec;
  std::unique_ptr<Device> planned_for = make_planning_device(options.device);
  std::optional<Price> price = price_of(options);
  PlannedData data = planned_data(recipes, options.data).front();
  FittedRecipe chosen = choose_plan(asked, spec, *planned_for, data.limits);
  const Recipe& recipe = chosen.recipe;
  const Plan& plan = chosen.plan;
  DeviceRates rates = planned_for->rates(run_dtype(recipe, spec));
  RunForecast run = forecast_run(plan, recipe, data.length, rates);
  auto finish = [&] {
    write_page(options, recipe, {{"", &plan, run_sentence(run, price)}},
               describe_device(*planned_for, options.device));
    return plan.fits() ? kExitOk : kExitDoesNotFit;
  };
  if (options.programs) {
    print_programs(plan);
    return finish();
  }
  Alternatives alternatives;
  if (!plan.fits()) {
    alternatives = find_alternatives(asked, spec, *planned_for, data.limits, {}, &chosen);
  }
  SpeedEstimate expected = estimate_speed(plan, rates);
  if (options.json) {
    Json report = plan_to_json(plan);
    report["device"] = planned_for->label();
    if (!options.device.gpu.empty()) {
      report["gpu"] = find_catalogue_card(options.device.gpu).name;
    }
    report["chosen"] = choice_json(recipe);
    if (expected.known()) {
      report["expected_tokens_per_second"] = expected.tokens_per_second();
      report["rates"] = planned_for->rates_origin().is_measured ? "measured" : "assumed";
    }
    report["run"] = run_json(run, price);
    if (std::string warning = positions_warning(recipe, spec); !warning.empty()) {
      report["warnings"] = {warning};
    }
    if (!options.as.empty()) {
      report["as_transformers"] = python_stacks_json(usual_python_stacks(asked, spec, plan));
    }
    if (!plan.fits()) {
      report.update(misfit_json(alternatives));
    }
    fmt::print("{}\n", json_text(report));
  } else {
    Style style = Style::for_stdout();
    fmt::print("{}{}{}{}",
               plan_report(plan, recipe, spec, describe_device(*planned_for, options.device), style),
               choice_report(chosen, style), speed_report(expected, planned_for->rates_origin(), style),
               run_report(run, price, style));
    if (options.picture || stdout_is_terminal()) {
      fmt::print("\n{}", memory_picture(plan, style));
    }
    if (!options.as.empty()) {
      fmt::print("\n{}", stacks_text(asked, spec, plan, style));
    }
    if (!plan.fits()) {
      fmt::print("{}", does_not_fit_report(plan, alternatives, style));
    }
  }
  return finish();
}

}  // namespace

void add_plan_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<PlanOptions>();
  CLI::App* command = app.add_subcommand("plan", "Every byte of a run, before anything is loaded");
  add_recipe_arguments(*command, options->recipe);
  add_device_arguments(*command, options->device);
  add_gpu_argument(*command, options->device);
  CLI::Option* data =
      command->add_flag("--data", options->data.with_data,
                        "Read the data too, and plan for the longest batch that it can make, as train does");
  command
      ->add_option("--rows", options->data.rows,
                   "Count the steps of so many rows an epoch, where the data is not here; of every stage")
      ->check(CLI::Range(int64_t{1}, kMostRows))
      ->excludes(data);
  command->add_option(
      "--price", options->price,
      "What an hour of the card costs, e.g. 0.79, \"$0.79\" or \"0.79 EUR\", in place of what "
      "the catalogue has");
  command->add_flag("--json", options->json, "Print JSON");
  command->add_flag("--what-if", options->what_if,
                    "Instead: each usual remedy alone, also those that help nobody: what it saves, costs and "
                    "changes (docs/what-saves-memory.md); exit code 0");
  command
      ->add_flag(
          "--programs", options->programs,
          "Print what each phase runs on this device instead: every buffer with its home, every op with "
          "its scratch memory")
      ->excludes("--json");
  command->add_flag("--picture", options->picture,
                    "Draw memory over the ops of the phase that needs most, also where there is no terminal");
  command
      ->add_option("--as", options->as,
                   "Also estimate what the same run takes under transformers + PEFT, as people run it")
      ->check(CLI::IsMember({"transformers"}));
  command->add_option("--html", options->page,
                      "Also write a web page that needs nothing else: which buffers live where and when");
  command->footer(
      "\nNeeds the recipe and the model's config.json; no weights, no data. Every\n"
      "sequence is then as long as data.max_length allows; with --data, as long as\n"
      "the data's are.\n"
      "Exit code 0: it fits; 3: it does not.\n"
      "Every build plans for a card (--device cuda), with or without one, to the byte\n"
      "of the arena that a card gets; say which one it is with --gpu, or how much memory\n"
      "it has with --memory.\n"
      "A recipe with stages has a column a stage, and the peak over all.\n"
      "\nExamples:\n  snug plan recipes/ship_log.yml --memory 64MB\n"
      "  snug plan recipes/ship_log.yml --set lora.r=64 --set memory.recompute=full --json\n"
      "  snug plan recipes/ship_log.yml --device cuda --memory 24GB\n"
      "  snug plan recipes/ship_log.yml --gpu 3090 --html plan.html\n"
      "  snug plan recipes/cases/recipe_writing.yml --gpu h200 --rows 6000000 --price 3.20\n"
      "  snug plan recipes/ship_log.yml --what-if --gpu 3090\n"
      "  snug plan recipes/cases/security.yml --gpu a6000\n"
      "  snug plan recipes/ship_log.yml --gpu 3090 --as transformers");
  command->callback([options, &action] { action = [options] { return plan_command(*options); }; });
}

}  // namespace snug
