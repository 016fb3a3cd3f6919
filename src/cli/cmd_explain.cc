// snug explain LOG [RECIPE]
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "cli/commands.h"
#include "explain/log.h"
#include "explain/story.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/printable.h"
#include "model/catalogue.h"
#include "recipe/parse.h"
#include "report/explain_report.h"

namespace snug {
namespace {

struct ExplainOptions {
  std::string log;
  std::string recipe;
  std::string stage;
  bool json = false;
};

// Of the stages of a recipe, the one that the log is of.
Recipe recipe_of_log(const ExplainOptions& options) {
  std::vector<Recipe> recipes = read_recipes(options.recipe);
  std::vector<std::string> names;
  for (const Recipe& recipe : recipes) {
    if (recipe.stage.name == options.stage) {
      return recipe;
    }
    names.push_back(recipe.stage.name);
  }
  if (recipes.front().stage.name.empty()) {
    throw bad_input(
        fmt::format("--stage is {}: {} has no stages", in_quotes(options.stage), in_quotes(options.recipe)));
  }
  std::string given = options.stage.empty() ? "is not given" : "is " + in_quotes(options.stage);
  throw bad_input(fmt::format("{}: --stage {}; the log is of one of its stages: {}",
                              in_quotes(options.recipe), given, fmt::join(names, ", ")));
}

int explain_command(const ExplainOptions& options) {
  bool is_piped = options.log == kStandardInput;
  LogFacts facts = read_log(read_text_file(is_piped ? "/dev/stdin" : options.log));
  if (facts.empty()) {
    throw bad_input(fmt::format(
        "{}: nothing in it says what happened. What can be explained: {}. Counts are compared with {} "
        "models.",
        in_quotes(options.log), fmt::join(known_log_texts(), "; "), catalogue_ids().size()));
  }
  std::optional<Recipe> recipe;
  if (!options.recipe.empty()) {
    recipe = recipe_of_log(options);
  }
  Story story = tell_story(facts, recipe ? &*recipe : nullptr);
  if (options.json) {
    fmt::print("{}\n", json_text(explain_json(story)));
  } else {
    fmt::print("{}", explain_report(story, Style::for_stdout()));
  }
  return kExitOk;
}

}  // namespace

void add_explain_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<ExplainOptions>();
  CLI::App* command = app.add_subcommand(
      "explain", "What another program's log says about memory, and what would have fitted");
  command->add_option("log", options->log, "The log, or - for standard input")->required();
  command->add_option("recipe", options->recipe,
                      "The run as a recipe, if there is one: its model and its settings");
  command->add_option("--stage", options->stage, "The stage of the recipe that the log is of");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "\nReads what PyTorch, PEFT, accelerate, bitsandbytes, DeepSpeed, llama.cpp and\n"
      "nvidia-smi print, compares counts and sizes with the shapes of well-known models,\n"
      "and gives a recipe that fits, with what it would take under transformers. Needs no\n"
      "card, no weights and no network.\n"
      "Exit code 2: the log says nothing that is known.\n"
      "\nExamples:\n  snug explain train.log\n  nvidia-smi | snug explain -\n  snug explain train.log "
      "recipe.yml --json");
  command->callback([options, &action] { action = [options] { return explain_command(*options); }; });
}

}  // namespace snug
