// snug data RECIPE
#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "cli/commands.h"
#include "data/batches/limits.h"
#include "data/batches/sequence.h"
#include "io/json.h"
#include "model/locate.h"
#include "recipe/parse.h"
#include "report/data_progress.h"
#include "report/data_report.h"
#include "report/stages_report.h"
#include "train/trainer.h"

namespace snug {
namespace {

constexpr int64_t kShownTokens = 400;

struct DataArguments {
  RecipeArguments recipe;
  int64_t examples = 2;
  bool json = false;
};

// Evenly from the whole data.
std::vector<RenderedExample> pick_examples(const Dataset& dataset, const Tokenizer& tokenizer,
                                           int64_t count) {
  std::vector<RenderedExample> examples;
  for (int64_t i = 0; i < std::min(count, dataset.size()); ++i) {
    int64_t index = i * dataset.size() / std::min(count, dataset.size());
    examples.push_back(render_example(dataset, index, tokenizer, kShownTokens));
  }
  return examples;
}

// The report of one recipe, or of one stage; returns whether training would stop at its rows.
struct ReportedData {
  std::string text;
  Json json;
  bool stops = false;
};
ReportedData report_data(const DataArguments& arguments, const Recipe& recipe) {
  LocatedModel model = locate_model_files(recipe.model.path);
  // All that is wrong is to be seen at once, so nothing stops at the first bad row.
  Recipe tolerant = recipe;
  tolerant.data.on_bad_row = OnBadRow::skip;
  RunData data = [&] {
    DataProgressLine progress;
    return read_train_inputs(tolerant, model, [&](const DataProgress& now) { progress.show(now); }).data;
  }();
  std::unique_ptr<Tokenizer> tokenizer = load_tokenizer(model.folder);
  // How many sequences are evaluated at a time is for the plan to choose where the recipe leaves it open.
  Recipe largest = recipe;
  largest.training.per_device_eval_batch_size =
      recipe.training.per_device_eval_batch_size.value_or(kMostEvaluationSequences);
  DataReport report{
      .recipe = recipe,
      .data = data,
      .limits = DataLimits(largest, data.train, data.read_in_evaluations())(largest),
      .total_steps = BatchSequence(data.train, training_batches(recipe, data.train)).total_steps(),
      .examples = pick_examples(data.train, *tokenizer, arguments.examples)};
  return {.text = arguments.json ? "" : data_report(report, Style::for_stdout()),
          .json = arguments.json ? data_report_json(report) : Json(),
          .stops = recipe.data.on_bad_row == OnBadRow::stop && has_bad_rows(data)};
}

int data_command(const DataArguments& arguments) {
  std::vector<Recipe> recipes = read_recipes(arguments.recipe.path, all_overrides(arguments.recipe));
  bool has_stages = !recipes.front().stage.name.empty();
  Json stages = Json::array();
  bool stops = false;
  for (size_t i = 0; i < recipes.size(); ++i) {
    ReportedData reported = report_data(arguments, recipes[i]);
    stops = stops || reported.stops;
    if (arguments.json) {
      if (has_stages) {
        reported.json["stage"] = recipes[i].stage.name;
      }
      stages.push_back(std::move(reported.json));
    } else {
      fmt::print("{}{}", has_stages ? stage_heading(recipes[i], i, recipes.size(), Style::for_stdout()) : "",
                 reported.text);
    }
  }
  if (arguments.json) {
    Json all = has_stages ? Json({{"stages", stages}}) : stages.front();
    fmt::print("{}\n", json_text(all));
  }
  return stops ? kExitBadInput : kExitOk;
}

}  // namespace

void add_data_command(CLI::App& app, Action& action) {
  auto arguments = std::make_shared<DataArguments>();
  CLI::App* command =
      app.add_subcommand("data", "What training will see: examples, lengths, what is cut, what looks wrong");
  add_recipe_arguments(*command, arguments->recipe);
  command->add_option("--examples", arguments->examples, "How many examples to show")
      ->check(CLI::Range(0, 1000));
  command->add_flag("--json", arguments->json, "Print JSON");
  command->footer(
      "\nTokenizes the data if that was not done yet; training then starts at once.\n"
      "Exit code 2: there are rows at which training would stop.\n"
      "\nExamples:\n  snug data recipes/ship_log.yml\n"
      "  snug data recipes/ship_log.yml --set data.max_length=128 --examples 5");
  command->callback([arguments, &action] { action = [arguments] { return data_command(*arguments); }; });
}

}  // namespace snug
