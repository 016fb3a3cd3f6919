// The table of recipe keys. Reading, checking, suggestions, writing and docs/recipe.md all follow from it:
// a new key is a field in recipe.h and a row in keys.cc.
#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "recipe/recipe.h"
#include "recipe/yaml_tree.h"

namespace snug {

// Why a value was refused, where that is more exact than "this key's value".
struct BadValue {
  YamlNode where;
  std::optional<size_t> element;  // of a list
  std::string did_you_mean;       // "" for nothing near
  std::string remedy = {};        // what to write, for what other tools know; in place of what is expected
  bool is_secret = false;         // what stands there is not repeated
};

struct RecipeKey {
  std::string_view name = {};  // "training.learning_rate"; without a dot at the top level
  std::string allowed = {};    // completes "expected ...", and is the reference's second column
  std::string example = {};    // "" where `allowed` says it all
  std::string_view help = {};
  bool required = false;
  std::function<std::optional<BadValue>(const YamlNode&, Recipe&)> read = {};
  std::function<Json(const Recipe&)> print = {};  // null: nothing given

  std::string_view section() const;  // "training", or "" at the top level
  std::string_view leaf() const;     // "learning_rate"
};

struct RecipeSection {
  std::string_view name;
  std::string_view help = {};
  // For a section whose presence is itself a choice; null pointers for all others.
  void (*set_present)(Recipe&, bool present) = nullptr;
  bool (*is_present)(const Recipe&) = nullptr;
};

const std::vector<RecipeKey>& recipe_keys();
std::span<const RecipeSection> recipe_sections();

// Null if there is no such key or section.
const RecipeKey* find_recipe_key(std::string_view dotted_name);
const RecipeSection* find_recipe_section(std::string_view name);

}  // namespace snug
