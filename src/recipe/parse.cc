// Walks the YAML tree in file order and looks every name up in the key table. A problem does not end the
// walk: people would rather mend all of them at once.
#include "recipe/parse.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <iostream>
#include <map>
#include <set>
#include <system_error>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "recipe/eval_metric.h"
#include "recipe/keys.h"
#include "recipe/scheduler_kwargs.h"
#include "recipe/suggest.h"
#include "recipe/yaml_tree.h"

namespace snug {
namespace {

using Kind = YamlValue::Kind;

// More would not be read by anyone, and hostile text could ask for millions.
constexpr size_t kMaxProblems = 20;

// What a recipe has become so far, and what is wrong with it.
struct Reading {
  Recipe recipe;
  std::vector<std::string> problems;
  std::set<std::string_view> keys_given;  // well or not: they are not missing

  void refuse(std::string problem) { problems.push_back(std::move(problem)); }
  bool has_enough() const { return problems.size() >= kMaxProblems; }
};

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
  std::string example = key.example.empty() ? "" : fmt::format(", e.g. {}", key.example);
  std::string hint =
      bad->did_you_mean.empty() ? "" : fmt::format("; did you mean \"{}\"?", bad->did_you_mean);
  reading.refuse(fmt::format("{}: {}{} is {}: expected {}{}{}", source.at(visible(name, bad->where)),
                             key.name, element, describe(bad->where), key.allowed, example, hint));
}

// Refuses names that are no names and names that come twice (yaml-cpp alone would keep the first in silence).
class NameChecker {
 public:
  NameChecker(std::string place, const YamlSource& source, Reading& reading)
      : place_(std::move(place)), source_(source), reading_(reading) {}

  // Null where it refused the name.
  const std::string* check(const YamlNode& name) {
    if (name.value->kind != Kind::scalar) {
      reading_.refuse(
          fmt::format("{}: a key {} is {}: expected a name", source_.at(name), place_, describe(name)));
      return nullptr;
    }
    auto [seen, is_new] = seen_.emplace(name.value->text, name);
    if (!is_new) {
      std::string where = source_.has_lines ? fmt::format(" at line {}", seen->second.line) : "";
      reading_.refuse(fmt::format("{}: duplicate key {} {}: it is already set{}", source_.at(name),
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
    reading.refuse(fmt::format("{}: {} is {}: expected a section with keys: {}", source.at(value),
                               section.name, describe(value), known_names(section.name)));
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
      reading.refuse(fmt::format("{}: {}", source.at(items[i]), unknown_name(section.name, *leaf)));
    } else {
      read_key(*key, items[i], items[i + 1], source, reading);
    }
  }
}

void read_root(const YamlNode& root, const YamlSource& source, Reading& reading) {
  if (root.value->kind != Kind::map) {
    throw bad_input(fmt::format("{}: the recipe is {}: expected keys: {}", source.at(root), describe(root),
                                known_names("")));
  }
  NameChecker names("at the top level", source, reading);
  const std::vector<YamlNode>& items = root.value->items;
  for (size_t i = 0; i + 1 < items.size() && !reading.has_enough(); i += 2) {
    const std::string* name = names.check(items[i]);
    if (name == nullptr) {
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
      reading.refuse(fmt::format("{}: {}", source.at(items[i]),
                                 holds_keys ? unknown_section(*name) : unknown_name("", *name)));
    }
  }
}

void apply_override(const std::string& override_text, Reading& reading) {
  constexpr size_t kMaxShownBytes = 80;
  YamlSource source{.name = fmt::format("--set {}", printable(override_text, kMaxShownBytes)),
                    .has_lines = false};
  size_t equals = override_text.find('=');
  if (equals == std::string::npos || equals == 0) {
    reading.refuse(fmt::format("{}: expected key=value, e.g. training.learning_rate=1e-4", source.at(1, 1)));
    return;
  }
  std::string name = override_text.substr(0, equals);
  YamlDocument document(std::string_view(override_text).substr(equals + 1), source);
  const YamlNode& value = document.root();
  if (const RecipeKey* key = find_recipe_key(name); key != nullptr) {
    read_key(*key, value, value, source, reading);
  } else if (const RecipeSection* section = find_recipe_section(name); section != nullptr) {
    read_section(*section, value, source, SectionMode::replaces, reading);
  } else {
    size_t dot = name.find('.');
    std::string section_name = dot == std::string::npos ? "" : name.substr(0, dot);
    bool is_known_section = find_recipe_section(section_name) != nullptr;
    reading.refuse(fmt::format(
        "{}: {}", source.at(1, 1),
        is_known_section ? unknown_name(section_name, name.substr(dot + 1)) : unknown_name("", name)));
  }
}

// A missing key has no position; its section is the nearest thing to one.
void require_keys(const YamlNode& root, const YamlSource& source, Reading& reading) {
  for (const RecipeKey& key : recipe_keys()) {
    if (!key.required || reading.keys_given.contains(key.name)) {
      continue;
    }
    YamlNode place;
    const std::vector<YamlNode>& items = root.value->items;
    for (size_t i = 0; i + 1 < items.size(); i += 2) {
      if (items[i].value->text == key.section()) {
        place = items[i];
      }
    }
    reading.refuse(fmt::format("{}: {} is missing: expected {}", source.at(place), key.name, key.allowed));
  }
}

// "~/x" is below the home folder, as in a shell.
std::filesystem::path with_home(const std::string& path) {
  const char* home = std::getenv("HOME");
  bool is_below_home = path == "~" || path.starts_with("~/");
  return is_below_home && home != nullptr
             ? std::filesystem::path(home) / path.substr(std::min<size_t>(2, path.size()))
             : std::filesystem::path(path);
}

// The one place where the recipe's paths get their meaning; parse.h states the rule.
void resolve_paths(const std::filesystem::path& recipe_folder, Recipe& recipe) {
  auto resolve = [&](std::string& path) {
    path = (recipe_folder / with_home(path)).lexically_normal().string();
  };
  for (DataFile& file : recipe.data.train_file) {
    resolve(file.path);
  }
  for (std::string& file : recipe.data.eval_file) {
    resolve(file);
  }
  if (!recipe.data.cache_dir.empty()) {
    resolve(recipe.data.cache_dir);
  }
  if (recipe.lora && !recipe.lora->start.empty()) {
    resolve(recipe.lora->start);
  }
  std::error_code ignored;  // an unreadable place is no file and no model folder
  std::filesystem::path chat_template = recipe_folder / with_home(recipe.data.chat_template);
  if (std::filesystem::is_regular_file(chat_template, ignored)) {
    recipe.data.chat_template = chat_template.lexically_normal().string();
  }
  std::filesystem::path model_folder = recipe_folder / with_home(recipe.model.path);
  if (std::filesystem::is_directory(model_folder, ignored)) {
    recipe.model.path = model_folder.lexically_normal().string();
  }
  recipe.output_dir = with_home(recipe.output_dir).string();
}

// Keys that are well each for itself, but not together.
void check_together(const YamlSource& source, Reading& reading) {
  const Recipe& recipe = reading.recipe;
  const DataSection& data = recipe.data;
  auto refuse = [&](bool wrong, std::string_view why) {
    if (wrong) {
      reading.refuse(fmt::format("{}: {}", source.name, why));
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
  refuse(training.early_stopping_patience > 0 && !evaluates,
         "training.early_stopping_patience is set, but there is nothing to evaluate with: write "
         "data.eval_file or data.eval_split");
  std::string schedule_problem = find_schedule_problem(recipe.training);
  refuse(!schedule_problem.empty(), schedule_problem);
}

void throw_if_any(const YamlSource& source, const std::vector<std::string>& problems) {
  if (problems.size() == 1) {
    throw bad_input(problems.front());
  }
  if (!problems.empty()) {
    std::string_view or_more = problems.size() >= kMaxProblems ? " or more" : "";
    throw bad_input(fmt::format("{}: {}{} problems\n  {}", source.name, problems.size(), or_more,
                                fmt::join(problems, "\n  ")));
  }
}

// The file that a recipe extends, or "". What is no name is refused where the key is read.
std::string base_of(const YamlNode& root) {
  const std::vector<YamlNode>& items = root.value->items;
  for (size_t i = 0; root.value->kind == Kind::map && i + 1 < items.size(); i += 2) {
    if (items[i].value->text == "extends" && items[i + 1].value->kind == Kind::scalar) {
      return items[i + 1].value->text;
    }
  }
  return "";
}

// What a recipe is based on comes first, with its paths as they are from its own folder.
void read_bases(const YamlNode& root, const YamlSource& source, const std::filesystem::path& folder,
                std::vector<std::filesystem::path> chain, Reading& reading) {
  std::string base = base_of(root);
  if (base.empty()) {
    return;
  }
  std::filesystem::path path = std::filesystem::absolute(folder / with_home(base)).lexically_normal();
  if (std::find(chain.begin(), chain.end(), path) != chain.end()) {
    reading.refuse(fmt::format("{}: extends leads back to {}", source.name, path.string()));
    return;
  }
  chain.push_back(path);
  YamlSource base_source{.name = path.string()};
  YamlDocument document(read_text_file(path, kMaxYamlBytes), base_source);
  read_bases(document.root(), base_source, path.parent_path(), chain, reading);
  read_root(document.root(), base_source, reading);
  resolve_paths(path.parent_path(), reading.recipe);
}

std::string read_standard_input(int64_t max_bytes) {
  std::string text(static_cast<size_t>(max_bytes) + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));  // one byte too many is refused as too long a recipe
  return text;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& path,
                    const std::vector<std::string>& overrides) {
  YamlSource source{.name = path.empty() ? "recipe" : path};
  YamlDocument document(text, source);
  Reading reading;
  reading.recipe.source_path = path;
  std::filesystem::path folder = std::filesystem::path(path).parent_path();
  std::filesystem::path self = path.empty() ? "" : std::filesystem::absolute(path).lexically_normal();
  read_bases(document.root(), source, folder, {self}, reading);
  read_root(document.root(), source, reading);
  for (const std::string& override_text : overrides) {
    apply_override(override_text, reading);
  }
  require_keys(document.root(), source, reading);
  if (reading.problems.empty()) {
    check_together(source, reading);  // of keys that were not read it would say what is not so
  }
  throw_if_any(source, reading.problems);
  resolve_paths(folder, reading.recipe);
  return std::move(reading.recipe);
}

Recipe read_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  if (path == kStandardInput) {
    return parse_recipe(read_standard_input(kMaxYamlBytes), "", overrides);
  }
  return parse_recipe(read_text_file(path, kMaxYamlBytes), path.string(), overrides);
}

}  // namespace snug
