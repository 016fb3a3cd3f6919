// Which changes of a recipe leave the experiment as it is.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/error.h"
#include "recipe/effective_batch.h"
#include "recipe/keys.h"
#include "recipe/parse.h"
#include "recipe/write.h"
#include "train/checkpoint.h"

namespace snug {
namespace {

// What a run does beside its steps, and where its files are: what they hold is compared by fingerprints. More
// steps or epochs may be added, and a run that is cut shorter ends earlier.
constexpr std::array<std::string_view, 29> kFree = {
    "output_dir",
    "model.path",
    "data.train_file",
    "data.eval_file",
    "data.cache_dir",
    "training.num_train_epochs",
    "training.max_steps",
    "training.eval_steps",
    "training.eval_max_new_tokens",
    "training.eval_generated_rows",
    "training.validation_prompts",
    "training.validation_max_new_tokens",
    "training.validation_temperature",
    "training.per_device_eval_batch_size",
    "training.save_strategy",
    "training.save_steps",
    "training.save_minutes",
    "training.save_total_limit",
    "training.load_best_model_at_end",
    "training.metric_for_best_model",
    "training.greater_is_better",
    "training.early_stopping_patience",
    "training.early_stopping_threshold",
    "training.on_trouble",
    "memory.limit",
    "logging.logging_steps",
    "logging.report_to",
    "logging.webhooks",
    "logging.webhook_minutes",
};
// Those that change the result by rounding: the checkpoint's are taken.
constexpr std::array<std::string_view, 6> kTaken = {
    "training.effective_batch_size",
    "training.per_device_train_batch_size",
    "training.gradient_accumulation_steps",
    "memory.recompute",
    "memory.loss_chunk_tokens",
    "memory.micro_batch_tokens",
};

template <typename Names>
bool is_in(const Names& names, std::string_view name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

// With the paths as a saved recipe has them.
Recipe as_saved(const Recipe& recipe) {
  return parse_recipe(recipe_to_yaml(recipe), recipe.source_path);
}

}  // namespace

Recipe recipe_to_go_on(const Recipe& asked, const ResumePoint& point) {
  const Recipe& before = point.recipe;
  auto refuse = [&](std::string_view key, const std::string& then, const std::string& now) {
    throw bad_input(fmt::format(
        "{} is {}, but {} was trained with {}: that would be another experiment. Set it back to go "
        "on, or begin a new run in another folder (--set output_dir=...)",
        key, now, point.folder.string(), then));
  };
  Recipe saved = as_saved(asked);
  if (saved.lora.has_value() != before.lora.has_value()) {
    refuse("lora", before.lora ? "adapters" : "all weights", saved.lora ? "there" : "not there");
  }
  for (const RecipeKey& key : recipe_keys()) {
    bool is_absent = key.section() == "lora" && !before.lora;
    if (is_absent || is_in(kFree, key.name) || is_in(kTaken, key.name)) {
      continue;
    }
    Json then = key.print(before);
    Json now = key.print(saved);
    if (then != now) {
      refuse(key.name, yaml_value(then), yaml_value(now));
    }
  }
  if (int64_t now = effective_batch(asked.training), then = effective_batch(before.training); now != then) {
    refuse(asked.training.effective_batch_size
               ? "training.effective_batch_size"
               : "training.per_device_train_batch_size × gradient_accumulation_steps",
           std::to_string(then), std::to_string(now));
  }
  Recipe recipe = asked;
  recipe.training.effective_batch_size = before.training.effective_batch_size;
  recipe.training.per_device_train_batch_size = before.training.per_device_train_batch_size;
  recipe.training.gradient_accumulation_steps = before.training.gradient_accumulation_steps;
  recipe.memory.recompute = before.memory.recompute;
  recipe.memory.loss_chunk_tokens = before.memory.loss_chunk_tokens;
  recipe.memory.micro_batch_tokens = before.memory.micro_batch_tokens;
  if (!recipe.training.per_device_eval_batch_size && point.eval_sequences > 0) {
    recipe.training.per_device_eval_batch_size = point.eval_sequences;
  }
  return recipe;
}

void require_same_inputs(const RunIdentity& identity, const ResumePoint& point) {
  auto require = [&](const std::string& now, const std::string& then, std::string_view what) {
    if (now != then) {
      throw bad_input(
          fmt::format("{} is not what {} was trained with: its content is another. Go on with what it was "
                      "(--set can name another place), or begin a new run in another folder (--set "
                      "output_dir=...)",
                      what, point.folder.string()));
    }
  };
  require(identity.train_data, point.identity.train_data, "data.train_file");
  require(identity.eval_data, point.identity.eval_data, "the data to evaluate with");
  require(identity.model, point.identity.model, "model.path");
}

}  // namespace snug
