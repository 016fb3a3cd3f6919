// Reading the keys of a recipe's text into a Recipe, with everything that is wrong kept for later: people
// would rather mend all of it at once.
#pragma once

#include <functional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "recipe/recipe.h"
#include "recipe/yaml_tree.h"

namespace snug {

// What a recipe has become so far, and what is wrong with it.
struct Reading {
  Recipe recipe;
  std::vector<std::string> problems;
  std::set<std::string_view> keys_given;  // well or not: they are not missing
  std::string stage;                      // of the keys that are being read; "" for none

  // "where: what", once.
  void refuse(const std::string& where, const std::string& what);
  bool has_enough() const;
  // All of them, in one bad_input.
  void throw_if_any(const std::string& source_name) const;
};

// An entry at the top of a recipe or a stage that is no key of the table: true if it was read.
using ReadEntry =
    std::function<bool(const std::string& name, const YamlNode& name_node, const YamlNode& value)>;

// Sections and keys, in the order of the text. `read_other` is asked first.
void read_entries(const YamlNode& map, const YamlSource& source, const ReadEntry& read_other,
                  Reading& reading);

// One argument of --set, with its text before and behind "=".
struct Override {
  std::string text;  // the argument
  std::string key;
  std::string value;
};
void apply_override(const Override& one, Reading& reading);
YamlSource source_of(const Override& one);

// Keys that the recipe must have; `place` is the map that lacks them.
void require_keys(const YamlNode& place, const YamlSource& source, Reading& reading);

// Keys that are well each for itself, but not together.
void check_together(const YamlSource& source, Reading& reading);

}  // namespace snug
