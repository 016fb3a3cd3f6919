// Walks the YAML tree in the order of the text and looks every name up in the key table. A problem does not
// end the walk.
#include "recipe/reading.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/error.h"
#include "io/printable.h"
#include "recipe/effective_batch.h"
#include "recipe/eval_metric.h"
#include "recipe/keys.h"
#include "recipe/scheduler_kwargs.h"
#include "recipe/suggest.h"

namespace snug {
namespace {

using Kind = YamlValue::Kind;

// More would not be read by anyone, and hostile text could ask for millions.
constexpr size_t kMaxProblems = 20;

// A null has no text of its own, so its key is where the reader should look.
const YamlNode& visible(const YamlNode& name, const YamlNode& value) {
  return value.value->kind == Kind::null ? name : value;
}

void read_key(const RecipeKey& key, const YamlNode& name, const YamlNode& value, const YamlSource& source,
              Reading& reading) {
  reading.keys_given.insert(key.name);
  std::optional<BadValue> bad = key.read(value, reading.recipe);
  if (!bad) {
    return;
  }
  std::string element = bad->element ? fmt::format("[{}]", *bad->element) : "";
  if (!bad->remedy.empty()) {
    reading.refuse(source.at(visible(name, bad->where)),
                   fmt::format("{}{} {}: {}", key.name, element,
                               bad->is_secret ? "has a value that is not repeated here"
                                              : fmt::format("is {}", describe(bad->where)),
                               bad->remedy));
    return;
  }
  std::string example = key.example.empty() ? "" : fmt::format(", e.g. {}", key.example);
  std::string hint =
      bad->did_you_mean.empty() ? "" : fmt::format("; did you mean \"{}\"?", bad->did_you_mean);
  reading.refuse(source.at(visible(name, bad->where)),
                 fmt::format("{}{} is {}: expected {}{}{}", key.name, element, describe(bad->where),
                             key.allowed, example, hint));
}

// Refuses names that are no names and names that come twice (yaml-cpp alone would keep the first in silence).
class NameChecker {
 public:
  NameChecker(std::string place, const YamlSource& source, Reading& reading)
      : place_(std::move(place)), source_(source), reading_(reading) {}

  // Null where it refused the name.
  const std::string* check(const YamlNode& name) {
    if (name.value->kind != Kind::scalar) {
      reading_.refuse(source_.at(name),
                      fmt::format("a key {} is {}: expected a name", place_, describe(name)));
      return nullptr;
    }
    auto [seen, is_new] = seen_.emplace(name.value->text, name);
    if (!is_new) {
      std::string where = source_.has_lines ? fmt::format(" at line {}", seen->second.line) : "";
      reading_.refuse(source_.at(name), fmt::format("duplicate key {} {}: it is already set{}",
                                                    in_quotes(name.value->text), place_, where));
      return nullptr;
    }
    return &name.value->text;
  }

 private:
  std::string place_;
  const YamlSource& source_;
  Reading& reading_;
  std::map<std::string, YamlNode, std::less<>> seen_;
};

// Whether a section that is written takes the place of what was before, or adds to it.
enum class SectionMode { replaces, adds };

void read_section(const RecipeSection& section, const YamlNode& value, const YamlSource& source,
                  SectionMode mode, Reading& reading) {
  bool is_empty = value.value->kind == Kind::null;
  if (!is_empty && value.value->kind != Kind::map) {
    reading.refuse(source.at(value), fmt::format("{} is {}: expected a section with keys: {}", section.name,
                                                 describe(value), known_names(section.name)));
    return;
  }
  if (section.set_present != nullptr) {
    if (mode == SectionMode::replaces) {
      section.set_present(reading.recipe, false);
    }
    section.set_present(reading.recipe, !is_empty);
  }
  NameChecker names(fmt::format("in {}", section.name), source, reading);
  const std::vector<YamlNode>& items = value.value->items;
  for (size_t i = 0; i + 1 < items.size() && !reading.has_enough(); i += 2) {
    const std::string* leaf = names.check(items[i]);
    if (leaf == nullptr) {
      continue;
    }
    const RecipeKey* key = find_recipe_key(fmt::format("{}.{}", section.name, *leaf));
    if (key == nullptr) {
      reading.refuse(source.at(items[i]), unknown_name(section.name, *leaf));
    } else {
      read_key(*key, items[i], items[i + 1], source, reading);
    }
  }
}

}  // namespace

void read_entries(const YamlNode& map, const YamlSource& source, const ReadEntry& read_other,
                  Reading& reading) {
  NameChecker names("at the top level", source, reading);
  const std::vector<YamlNode>& items = map.value->items;
  for (size_t i = 0; i + 1 < items.size() && !reading.has_enough(); i += 2) {
    const std::string* name = names.check(items[i]);
    if (name == nullptr || read_other(*name, items[i], items[i + 1])) {
      continue;
    }
    const RecipeSection* section = find_recipe_section(*name);
    const RecipeKey* key = name->find('.') == std::string::npos ? find_recipe_key(*name) : nullptr;
    if (section != nullptr) {
      read_section(*section, items[i + 1], source, SectionMode::adds, reading);
    } else if (key != nullptr) {
      read_key(*key, items[i], items[i + 1], source, reading);
    } else {
      bool holds_keys = items[i + 1].value->kind == Kind::map;
      reading.refuse(source.at(items[i]), holds_keys ? unknown_section(*name) : unknown_name("", *name));
    }
  }
}

YamlSource source_of(const Override& one) {
  constexpr size_t kMaxShownBytes = 80;
  // A URL may be a secret (recipe/webhooks_key.h), and messages end up in logs.
  std::string shown = one.text.find("://") == std::string::npos ? one.text : one.key + "=...";
  return {.name = fmt::format("--set {}", printable(shown, kMaxShownBytes)), .has_lines = false};
}

void apply_override(const Override& one, Reading& reading) {
  YamlSource source = source_of(one);
  const std::string& name = one.key;
  YamlDocument document(one.value, source);
  const YamlNode& value = document.root();
  if (const RecipeKey* key = find_recipe_key(name); key != nullptr) {
    read_key(*key, value, value, source, reading);
  } else if (const RecipeSection* section = find_recipe_section(name); section != nullptr) {
    read_section(*section, value, source, SectionMode::replaces, reading);
  } else {
    size_t dot = name.find('.');
    std::string section_name = dot == std::string::npos ? "" : name.substr(0, dot);
    bool is_known_section = find_recipe_section(section_name) != nullptr;
    reading.refuse(source.at(1, 1), is_known_section ? unknown_name(section_name, name.substr(dot + 1))
                                                     : unknown_name("", name));
  }
}

// A missing key has no position; its section is the nearest thing to one.
void require_keys(const YamlNode& root, const YamlSource& source, Reading& reading) {
  for (const RecipeKey& key : recipe_keys()) {
    if (!key.required || reading.keys_given.contains(key.name)) {
      continue;
    }
    YamlNode place = reading.stage.empty() ? YamlNode() : root;
    const std::vector<YamlNode>& items = root.value->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].value->text == key.section()) {
        place = items[i];
      }
    }
    reading.refuse(source.at(place), fmt::format("{} is missing: expected {}", key.name, key.allowed));
  }
}

// Keys that are well each for itself, but not together.
void check_together(const YamlSource& source, Reading& reading) {
  const Recipe& recipe = reading.recipe;
  const DataSection& data = recipe.data;
  auto refuse = [&](bool wrong, std::string_view why) {
    if (wrong) {
      reading.refuse(source.name, std::string(why));
    }
  };
  refuse(data.packing && recipe.training.group_by_length,
         "data.packing and training.group_by_length are both set: packs are filled by length already; "
         "keep one of them");
  refuse(!data.eval_file.empty() && data.eval_split > 0,
         "data.eval_file and data.eval_split are both set: evaluate with a file, or with rows kept from "
         "train_file");
  refuse(
      data.prompt_template.empty() != data.completion_column.empty(),
      "data.prompt_template and data.completion_column belong together: the prompt, and the column that is "
      "learned");
  refuse(data.prompt_template.empty() && !data.system_column.empty(),
         "data.system_column is for data.prompt_template, which is not set");
  refuse(
      !data.prompt_template.empty() && data.format != DataFormat::automatic,
      "data.prompt_template says what a row holds, and data.format says so too: leave data.format at auto");
  const TrainingSection& training = recipe.training;
  bool evaluates = !data.eval_file.empty() || data.eval_split > 0;
  refuse(training.save_strategy == SaveStrategy::best && !evaluates,
         "training.save_strategy is best, but there is nothing to evaluate with: write data.eval_file or "
         "data.eval_split");
  refuse(
      training.load_best_model_at_end && !evaluates,
      "training.load_best_model_at_end is set, but there is nothing to evaluate with: write data.eval_file "
      "or data.eval_split");
  refuse(training.load_best_model_at_end && training.save_strategy == SaveStrategy::no,
         "training.load_best_model_at_end needs checkpoints, but training.save_strategy is no: write best");
  std::string metric_problem = find_metric_problem(recipe);
  refuse(!metric_problem.empty(), metric_problem);
  refuse(
      training.eval_max_new_tokens > 0 && !evaluates,
      "training.eval_max_new_tokens is set, but there is nothing to evaluate with: write data.eval_file or "
      "data.eval_split");
  refuse(has_validation_prompts(training) && !evaluates,
         "training.validation_prompts are answered at every evaluation, but there is nothing to evaluate "
         "with: write data.eval_file or data.eval_split");
  refuse(training.early_stopping_patience > 0 && !evaluates,
         "training.early_stopping_patience is set, but there is nothing to evaluate with: write "
         "data.eval_file or data.eval_split");
  std::string batch_problem = find_batch_problem(training);
  refuse(!batch_problem.empty(), batch_problem);
  std::string schedule_problem = find_schedule_problem(recipe.training);
  refuse(!schedule_problem.empty(), schedule_problem);
}

void Reading::refuse(const std::string& where, const std::string& what) {
  std::string problem = stage.empty() ? fmt::format("{}: {}", where, what)
                                      : fmt::format("{}: stage {}: {}", where, stage, what);
  if (std::find(problems.begin(), problems.end(), problem) == problems.end()) {
    problems.push_back(std::move(problem));
  }
}

bool Reading::has_enough() const {
  return problems.size() >= kMaxProblems;
}

void Reading::throw_if_any(const std::string& source_name) const {
  if (problems.size() == 1) {
    throw bad_input(problems.front());
  }
  if (!problems.empty()) {
    std::string_view or_more = has_enough() ? " or more" : "";
    throw bad_input(fmt::format("{}: {}{} problems\n  {}", source_name, problems.size(), or_more,
                                fmt::join(problems, "\n  ")));
  }
}

}  // namespace snug
