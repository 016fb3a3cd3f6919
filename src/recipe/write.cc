// Writes a recipe by walking the key table.
#include "recipe/write.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <system_error>

#include "recipe/choices.h"
#include "recipe/keys.h"
#include "recipe/scalars.h"
#include "recipe/stages.h"

namespace snug {
namespace {

// Text that YAML reads as itself without quotes, wherever it stands.
bool is_plain_text(const std::string& text) {
  constexpr std::string_view kInside = "_./-";
  auto is_letter_or_digit = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
  };
  bool only_safe = std::all_of(text.begin(), text.end(), [&](char c) {
    return is_letter_or_digit(c) || kInside.find(c) != std::string_view::npos;
  });
  bool safe_start = !text.empty() && text.front() != '-';
  bool is_document_end = text == "...";
  bool is_null_word = text == "null" || text == "Null" || text == "NULL";
  return only_safe && safe_start && !is_document_end && !is_null_word && !parse_number(text) &&
         !parse_bool(text);
}

std::string absolute_path(const std::string& path) {
  return path.empty() ? path : std::filesystem::absolute(path).lexically_normal().string();
}

}  // namespace

Recipe with_absolute_paths(Recipe recipe) {
  for (DataFile& file : recipe.data.train_file) {
    file.path = absolute_path(file.path);
  }
  for (std::string& file : recipe.data.eval_file) {
    file = absolute_path(file);
  }
  recipe.training.validation_prompts_file = absolute_path(recipe.training.validation_prompts_file);
  for (Webhook& webhook : recipe.logging.webhooks) {
    webhook.url_file = absolute_path(webhook.url_file);
  }
  recipe.data.cache_dir = absolute_path(recipe.data.cache_dir);
  recipe.output_dir = absolute_path(recipe.output_dir);
  if (recipe.lora) {
    recipe.lora->start = absolute_path(recipe.lora->start);
  }
  std::error_code ignored;  // an unreadable place is no file and no model folder
  if (std::filesystem::is_regular_file(recipe.data.chat_template, ignored)) {
    recipe.data.chat_template = absolute_path(recipe.data.chat_template);
  }
  if (std::filesystem::is_directory(recipe.model.path, ignored)) {
    recipe.model.path = absolute_path(recipe.model.path);
  }
  return recipe;
}

std::string yaml_value(const Json& value) {
  if (value.is_array()) {
    std::string list;
    for (const Json& element : value) {
      list += fmt::format("{}{}", list.empty() ? "" : ", ", yaml_value(element));
    }
    return fmt::format("[{}]", list);
  }
  if (value.is_object()) {
    std::string map;
    for (const auto& [name, element] : value.items()) {
      map += fmt::format("{}{}: {}", map.empty() ? "" : ", ", yaml_value(Json(name)), yaml_value(element));
    }
    return fmt::format("{{{}}}", map);
  }
  if (value.is_number_float()) {
    return fmt::format("{}", value.get<double>());  // the shortest text that reads as the same number
  }
  if (value.is_string() && is_plain_text(value.get_ref<const std::string&>())) {
    return value.get<std::string>();
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);  // JSON's scalars are YAML
}

Json recipe_to_json(const Recipe& recipe) {
  Json document = Json::object();
  for (const RecipeSection& section : recipe_sections()) {
    bool is_absent = section.is_present != nullptr && !section.is_present(recipe);
    document[std::string(section.name)] = is_absent ? Json() : Json::object();
  }
  for (const RecipeKey& key : recipe_keys()) {
    Json& place = key.section().empty() ? document : document[std::string(key.section())];
    if (!place.is_null()) {
      place[std::string(key.leaf())] = key.print(recipe);
    }
  }
  return document;
}

namespace {

// A line a key, each behind `indent`; sections stand apart.
std::string block_yaml(const Json& document, std::string_view indent) {
  std::string text;
  for (const auto& [name, value] : document.items()) {
    if (!value.is_object()) {
      text += fmt::format("{}{}: {}\n", indent, name, yaml_value(value));
      continue;
    }
    text += fmt::format("{}{}:\n", indent, name);
    for (const auto& [leaf, leaf_value] : value.items()) {
      text += fmt::format("{}  {}: {}\n", indent, leaf, yaml_value(leaf_value));
    }
  }
  return text;
}

// What a stage changes, section by section.
Json changes_of(const Json& before, const Json& stage) {
  Json changes = Json::object();
  for (const auto& [name, value] : stage.items()) {
    const Json& old = before[name];
    if (value == old) {
      continue;
    }
    if (!value.is_object() || !old.is_object()) {
      changes[name] = value;
      continue;
    }
    for (const auto& [leaf, leaf_value] : value.items()) {
      if (leaf_value != old[leaf] && !is_run_key(fmt::format("{}.{}", name, leaf))) {
        changes[name][leaf] = leaf_value;
      }
    }
  }
  return changes;
}

}  // namespace

std::string recipe_to_yaml(const Recipe& recipe) {
  return block_yaml(recipe_to_json(with_absolute_paths(recipe)), "");
}

std::string recipes_to_yaml(const std::vector<Recipe>& recipes) {
  if (recipes.front().stage.name.empty()) {
    return recipe_to_yaml(recipes.front());
  }
  Json before = recipe_to_json(with_absolute_paths(recipes.front()));
  before.erase(kStagesKey);
  std::string text = block_yaml(before, "") + fmt::format("{}:\n", kStagesKey);
  for (const Recipe& recipe : recipes) {
    Json stage = recipe_to_json(with_absolute_paths(recipe));
    stage.erase(kStagesKey);
    text += fmt::format("  - name: {}\n", recipe.stage.name);
    if (recipe.stage.start != StageStart::fresh) {
      text += fmt::format("    start: {}\n", name_of(recipe.stage.start));
    }
    text += block_yaml(changes_of(before, stage), "    ");
    before = std::move(stage);
  }
  return text;
}

}  // namespace snug
