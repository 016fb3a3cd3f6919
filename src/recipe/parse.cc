// From text to recipes: what a recipe is based on, the recipe itself, what the command line changes, and its
// stages.
#include "recipe/parse.h"

#include <fmt/format.h>

#include <algorithm>
#include <deque>
#include <iostream>
#include <optional>
#include <system_error>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "recipe/keys.h"
#include "recipe/reading.h"
#include "recipe/stages.h"
#include "recipe/suggest.h"
#include "recipe/yaml_tree.h"

namespace snug {
namespace {

using Kind = YamlValue::Kind;

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
  if (!recipe.training.validation_prompts_file.empty()) {
    resolve(recipe.training.validation_prompts_file);
  }
  for (Webhook& webhook : recipe.logging.webhooks) {
    if (!webhook.url_file.empty()) {
      resolve(webhook.url_file);
    }
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

// A map of a text, and what the text's paths are relative to.
struct RecipeText {
  YamlNode map;
  YamlSource source;
  std::filesystem::path folder;
};

// A recipe in the making. Texts stay until the end: stages are read when all else is known.
struct Draft {
  Reading reading;
  std::optional<RecipeText> stages;    // a list
  std::deque<YamlDocument> documents;  // of what it is based on
};

void read_root(const RecipeText& text, Draft& draft) {
  const YamlNode& root = text.map;
  if (root.value->kind != Kind::map) {
    throw bad_input(fmt::format("{}: the recipe is {}: expected keys: {}", text.source.at(root),
                                describe(root), known_names("")));
  }
  read_entries(
      root, text.source,
      [&](const std::string& name, const YamlNode& name_node, const YamlNode& value) {
        if (name != kStagesKey) {
          return false;
        }
        bool is_list = value.value->kind == Kind::list && !value.value->items.empty();
        if (!is_list && value.value->kind != Kind::null) {
          draft.reading.refuse(text.source.at(name_node),
                               fmt::format("{} is {}: expected a list of stages, each with a name",
                                           kStagesKey, describe(value)));
        }
        bool has_too_many = is_list && value.value->items.size() > kMostStages;
        if (has_too_many) {
          draft.reading.refuse(text.source.at(name_node),
                               fmt::format("{} lists {}: expected at most {}", kStagesKey,
                                           value.value->items.size(), kMostStages));
        }
        draft.stages.reset();
        if (is_list && !has_too_many) {
          draft.stages = RecipeText{value, text.source, text.folder};
        }
        return true;
      },
      draft.reading);
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
void read_bases(const RecipeText& text, std::vector<std::filesystem::path> chain, Draft& draft) {
  std::string base = base_of(text.map);
  if (base.empty()) {
    return;
  }
  std::filesystem::path path = std::filesystem::absolute(text.folder / with_home(base)).lexically_normal();
  if (std::find(chain.begin(), chain.end(), path) != chain.end()) {
    draft.reading.refuse(text.source.name, fmt::format("extends leads back to {}", path.string()));
    return;
  }
  chain.push_back(path);
  YamlSource source{.name = path.string()};
  const YamlDocument& document = draft.documents.emplace_back(read_text_file(path, kMaxYamlBytes), source);
  RecipeText base_text{document.root(), source, path.parent_path()};
  read_bases(base_text, chain, draft);
  read_root(base_text, draft);
  resolve_paths(base_text.folder, draft.reading.recipe);
}

// "stages.NAME.key": for one stage; its name and the rest. Any other key is for all of them.
std::pair<std::string, std::string> stage_and_key(const std::string& key) {
  std::string prefix = fmt::format("{}.", kStagesKey);
  if (!key.starts_with(prefix)) {
    return {"", key};
  }
  size_t dot = key.find('.', prefix.size());
  std::string name = key.substr(prefix.size(), dot - prefix.size());
  return {name, dot == std::string::npos ? "" : key.substr(dot + 1)};
}

std::vector<Override> read_overrides(const std::vector<std::string>& texts, Draft& draft) {
  std::vector<Override> overrides;
  for (const std::string& text : texts) {
    size_t equals = text.find('=');
    Override one{text, text.substr(0, equals), equals == std::string::npos ? "" : text.substr(equals + 1)};
    if (equals == std::string::npos || equals == 0) {
      draft.reading.refuse(source_of(one).name, "expected key=value, e.g. training.learning_rate=1e-4");
    } else if (one.key == kStagesKey && one.value == "null") {
      draft.stages.reset();
    } else if (one.key == kStagesKey ||
               (!draft.stages && one.key.starts_with(std::string(kStagesKey) + "."))) {
      draft.reading.refuse(source_of(one).name,
                           draft.stages
                               ? "stages stand in the recipe's file; stages.NAME.key=value changes a "
                                 "key of one, stages=null leaves them out"
                               : "this recipe has no stages");
    } else {
      overrides.push_back(std::move(one));
    }
  }
  return overrides;
}

// The changes of one stage, and those of the command line.
class StageReader {
 public:
  StageReader(const RecipeText& list, const std::vector<Override>& overrides, Reading& reading)
      : list_(list), overrides_(overrides), reading_(reading) {}

  std::vector<Recipe> read() {
    read_names();
    refuse_unknown_stages();
    for (size_t i = 0; i < names_.size() && !reading_.has_enough(); ++i) {
      read_stage(i);
    }
    reading_.stage.clear();
    return std::move(stages_);
  }

 private:
  // What is wrong with a stage is said by its name, so all of them are known first.
  void read_names() {
    for (const YamlNode& item : list_.map.value->items) {
      std::string name;
      const std::vector<YamlNode>& entries = item.value->items;
      for (size_t i = 0; item.value->kind == Kind::map && i + 1 < entries.size(); i += 2) {
        if (entries[i].value->text == "name") {
          name = entries[i + 1].value->text;
        }
      }
      std::string problem = find_name_problem(name, names_);
      if (!problem.empty()) {
        reading_.refuse(list_.source.at(item), problem);
      }
      names_.push_back(name);
    }
  }

  void refuse_unknown_stages() {
    for (const Override& one : overrides_) {
      std::string name = stage_and_key(one.key).first;
      if (one.key.starts_with(kStagesKey) && std::find(names_.begin(), names_.end(), name) == names_.end()) {
        reading_.refuse(source_of(one).name, fmt::format("no stage is called {}: there are {}",
                                                         in_quotes(name), fmt::join(names_, ", ")));
      }
    }
  }

  void read_stage(size_t index) {
    const YamlNode& item = list_.map.value->items[index];
    if (item.value->kind != Kind::map) {
      return;  // it has no name, which was said
    }
    reading_.stage = names_[index];
    Recipe before = reading_.recipe;  // as the texts so far have it
    bool is_first = index == 0;
    reading_.recipe.stage.name = names_[index];
    reading_.recipe.stage.start = StageStart::fresh;
    if (!is_first && reading_.recipe.lora) {
      reading_.recipe.lora->start.clear();  // the first one's
    }
    read_entries(
        item, list_.source,
        [&](const std::string& name, const YamlNode& name_node, const YamlNode& value) {
          return read_stage_entry(name, name_node, value, is_first);
        },
        reading_);
    for (const std::string& problem : find_moved_run_keys(before, reading_.recipe)) {
      reading_.refuse(list_.source.at(item), problem);
    }
    Recipe as_written = reading_.recipe;
    apply_overrides(names_[index]);
    require_keys(item, list_.source, reading_);
    finish_stage(item);
    reading_.recipe = std::move(as_written);
  }

  bool read_stage_entry(const std::string& name, const YamlNode& name_node, const YamlNode& value,
                        bool is_first) {
    if (name == "name") {
      return true;
    }
    if (name == "start") {
      std::string problem = read_start(value, is_first, reading_.recipe.stage.start);
      if (!problem.empty()) {
        reading_.refuse(list_.source.at(name_node), problem);
      }
      return true;
    }
    if (name == kStagesKey || name == "extends") {
      reading_.refuse(list_.source.at(name_node),
                      fmt::format("{} belongs at the top level of the recipe", name));
      return true;
    }
    return false;
  }

  void apply_overrides(const std::string& stage) {
    std::string name = std::move(reading_.stage);
    reading_.stage.clear();  // what is wrong with an argument is so for all stages
    for (const Override& one : overrides_) {
      auto [of, key] = stage_and_key(one.key);
      if (of == stage && is_run_key(key)) {
        reading_.refuse(source_of(one).name, fmt::format("{} is the same for all stages: set it as --set "
                                                         "{}={}",
                                                         key, key, one.value));
      } else if (of.empty() || of == stage) {
        apply_override({one.text, key, one.value}, reading_);
      }
    }
    reading_.stage = std::move(name);
  }

  // Of stages with keys that were not read, what does not go together would be guessed.
  void finish_stage(const YamlNode& item) {
    if (is_readable()) {
      const Recipe* last = stages_.empty() ? nullptr : &stages_.back();
      size_t problems_before = reading_.problems.size();
      check_together(list_.source, reading_);
      for (const std::string& problem : find_stage_problems(last, reading_.recipe)) {
        reading_.refuse(list_.source.at(item), problem);
      }
      if (last != nullptr && reading_.problems.size() == problems_before) {
        place_behind(*last, reading_.recipe);
      }
      problems_of_sense_ += reading_.problems.size() - problems_before;
    }
    stages_.push_back(reading_.recipe);
  }
  bool is_readable() const { return reading_.problems.size() == problems_of_sense_; }

  const RecipeText& list_;
  const std::vector<Override>& overrides_;
  Reading& reading_;
  std::vector<std::string> names_;
  size_t problems_of_sense_ = 0;  // not of reading
  std::vector<Recipe> stages_;
};

std::string read_standard_input(int64_t max_bytes) {
  std::string text(static_cast<size_t>(max_bytes) + 1, '\0');
  std::cin.read(text.data(), static_cast<std::streamsize>(text.size()));
  text.resize(static_cast<size_t>(std::cin.gcount()));  // one byte too many is refused as too long a recipe
  return text;
}

}  // namespace

std::vector<Recipe> parse_recipes(std::string_view text, const std::string& path,
                                  const std::vector<std::string>& overrides) {
  YamlSource source{.name = path.empty() ? "recipe" : path};
  YamlDocument document(text, source);
  RecipeText root{document.root(), source, std::filesystem::path(path).parent_path()};
  Draft draft;
  Reading& reading = draft.reading;
  reading.recipe.source_path = path;
  std::filesystem::path self = path.empty() ? "" : std::filesystem::absolute(path).lexically_normal();
  read_bases(root, {self}, draft);
  read_root(root, draft);
  std::vector<Override> given = read_overrides(overrides, draft);
  std::vector<Recipe> recipes;
  if (draft.stages) {
    if (draft.stages->folder != root.folder) {  // its paths are not those of the recipe that it is based on
      resolve_paths(self.parent_path(), reading.recipe);
    }
    recipes = StageReader(*draft.stages, given, reading).read();
  } else {
    for (const Override& one : given) {
      apply_override(one, reading);
    }
    require_keys(root.map, source, reading);
    if (reading.problems.empty()) {
      check_together(source, reading);  // of keys that were not read it would say what is not so
    }
    recipes.push_back(reading.recipe);
  }
  reading.throw_if_any(source.name);
  for (Recipe& recipe : recipes) {
    resolve_paths(draft.stages ? draft.stages->folder : root.folder, recipe);
  }
  return recipes;
}

namespace {

Recipe the_only_one(std::vector<Recipe> recipes) {
  if (!recipes.front().stage.name.empty()) {
    throw bad_input(fmt::format("{}: has stages, where one recipe is expected", recipes.front().source_path));
  }
  return std::move(recipes.front());
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& path,
                    const std::vector<std::string>& overrides) {
  return the_only_one(parse_recipes(text, path, overrides));
}

std::string read_recipe_text(const std::filesystem::path& path) {
  return path == kStandardInput ? read_standard_input(kMaxYamlBytes) : read_text_file(path, kMaxYamlBytes);
}

std::vector<Recipe> read_recipes(const std::filesystem::path& path,
                                 const std::vector<std::string>& overrides) {
  return parse_recipes(read_recipe_text(path), path == kStandardInput ? "" : path.string(), overrides);
}

Recipe read_recipe(const std::filesystem::path& path, const std::vector<std::string>& overrides) {
  return the_only_one(read_recipes(path, overrides));
}

}  // namespace snug
