// Suggestions, the most certain first: a key of ours in another section, another tool's name, a near
// spelling.
#include "recipe/suggest.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "base/names.h"
#include "io/printable.h"
#include "recipe/foreign_names.h"
#include "recipe/keys.h"
#include "recipe/yaml_tree.h"

namespace snug {
namespace {

// Edit distance costs the product of both lengths; nothing this long is a misspelling.
constexpr size_t kMaxSpellingBytes = 100;

std::vector<std::string> names_in_section(std::string_view section) {
  std::vector<std::string> names;
  if (section.empty()) {
    for (const RecipeSection& known : recipe_sections()) {
      names.emplace_back(known.name);
    }
  }
  for (const RecipeKey& key : recipe_keys()) {
    if (key.section() == section) {
      names.emplace_back(key.leaf());
    }
  }
  return names;
}

// The key of that name in another section, or "".
std::string_view same_name_elsewhere(std::string_view name) {
  for (const RecipeKey& key : recipe_keys()) {
    if (key.leaf() == name || key.name == name) {
      return key.name;
    }
  }
  return "";
}

// What the name may be a misspelling of. A dotted name, as --set takes it, is compared with dotted names.
std::vector<std::string> candidates_for(std::string_view section, std::string_view name) {
  if (!section.empty() || name.find('.') == std::string_view::npos) {
    return names_in_section(section);
  }
  std::vector<std::string> names;
  for (const RecipeKey& key : recipe_keys()) {
    names.emplace_back(key.name);
  }
  return names;
}

std::string advice_for(std::string_view section, std::string_view name) {
  if (std::string_view elsewhere = same_name_elsewhere(name); !elsewhere.empty()) {
    size_t dot = elsewhere.find('.');
    return dot == std::string_view::npos ? fmt::format("{} belongs at the top level", name)
                                         : fmt::format("{} belongs in the section {}",
                                                       elsewhere.substr(dot + 1), elsewhere.substr(0, dot));
  }
  if (std::string_view advice = foreign_advice(name); !advice.empty()) {
    return std::string(advice);
  }
  std::string nearest;
  if (name.size() <= kMaxSpellingBytes) {
    nearest = nearest_name(name, candidates_for(section, name));
  }
  return nearest.empty() ? fmt::format("known names: {}", known_names(section))
                         : fmt::format("did you mean \"{}\"?", nearest);
}

}  // namespace

std::string known_names(std::string_view section) {
  return fmt::format("{}", fmt::join(names_in_section(section), ", "));
}

std::string unknown_name(std::string_view section, std::string_view name) {
  std::string place = section.empty() ? "at the top level" : fmt::format("in {}", section);
  return fmt::format("unknown key {} {}; {}", in_quotes(name), place, advice_for(section, name));
}

std::string unknown_section(std::string_view name) {
  return fmt::format("unknown section {}; {}", in_quotes(name), advice_for("", name));
}

}  // namespace snug
