// Makes the rows of the key table: one function for each type of value. `field` is a generic lambda that
// returns the field of a recipe, const or not.
#pragma once

#include <fmt/format.h>

#include <cstdint>
#include <limits>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "recipe/keys.h"

namespace snug {

struct IntegerRange {
  int64_t low = 0;
  int64_t high = 0;  // included
};

struct NumberRange {
  double low = 0;
  bool low_included = true;
  double high = std::numeric_limits<double>::infinity();
  bool high_included = true;
};

// A number with a name, one of several that a key holds.
struct NamedNumber {
  std::string_view name;
  NumberRange range;
};

inline constexpr NumberRange kAboveZero = {.low_included = false};
inline constexpr NumberRange kAtLeastZero = {};
// How often rows may come, by epochs or by a file's weight.
inline constexpr NumberRange kUpToAMillion = {.low_included = false, .high = 1e6};
inline constexpr NumberRange kZeroToOne = {.high = 1};
inline constexpr NumberRange kZeroToBelowOne = {.high = 1, .high_included = false};

std::string allowed_text(const IntegerRange& range);
std::string allowed_text(const NumberRange& range);
std::string allowed_text(const std::vector<std::string>& names);  // "linear, cosine or constant"

// Each stores the value and returns nothing, or leaves `out` alone and says what is wrong.
std::optional<BadValue> read_integer(const YamlNode& node, const IntegerRange& range, int64_t& out);
std::optional<BadValue> read_number(const YamlNode& node, const NumberRange& range, double& out);
std::optional<BadValue> read_bool(const YamlNode& node, bool& out);
std::optional<BadValue> read_text(const YamlNode& node, std::string& out);
std::optional<BadValue> read_text_or_list(const YamlNode& node, std::vector<std::string>& out);
// The same, or a map from names to these: `sets` has the name of each of `files` then, and is empty
// otherwise. null for no files.
std::optional<BadValue> read_eval_files(const YamlNode& node, std::vector<std::string>& files,
                                        std::vector<std::string>& sets);
Json eval_files_json(const std::vector<std::string>& files, const std::vector<std::string>& sets);
// The same, each with a weight if the list has {path, weight} in it.
std::optional<BadValue> read_files(const YamlNode& node, std::vector<DataFile>& out);
// {text: number}, in the order in which they stand.
std::optional<BadValue> read_patterns(const YamlNode& node, const IntegerRange& range,
                                      std::vector<std::pair<std::string, int64_t>>& out);
std::optional<BadValue> read_patterns(const YamlNode& node, const NumberRange& range,
                                      std::vector<std::pair<std::string, double>>& out);
// Text of a form: lines and tabs may be in it.
std::optional<BadValue> read_lines(const YamlNode& node, std::string& out);
std::optional<BadValue> read_size(const YamlNode& node, std::optional<int64_t>& out_bytes);
std::optional<BadValue> read_dtype(const YamlNode& node, std::optional<DType>& out);
// The index of the name; a misspelt one gets the nearest.
std::optional<BadValue> read_choice(const YamlNode& node, const std::vector<std::string>& names, size_t& out);

// A map from some of `names` to numbers.
using NumberMap = std::map<std::string, double, std::less<>>;
std::optional<BadValue> read_numbers(const YamlNode& node, std::span<const NamedNumber> names,
                                     NumberMap& out);
std::string allowed_text(std::span<const NamedNumber> names);

// A byte count in the largest unit that states it exactly: "24GB", "512MiB", "1000001B".
std::string exact_size(int64_t bytes);

// "" for no files, as for any required text; one file's name; a list of names and {path, weight}.
Json files_json(const std::vector<DataFile>& files);

bool is_null(const YamlNode& node);
bool is_auto(const YamlNode& node);  // or null
bool is_list(const YamlNode& node);

template <typename Choices>
std::vector<std::string> names_in(const Choices& choices) {
  std::vector<std::string> names;
  names.reserve(choices.size());
  for (const auto& choice : choices) {
    names.emplace_back(choice.first);
  }
  return names;
}

template <typename Field>
RecipeKey integer_key(std::string_view name, IntegerRange range, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = allowed_text(range), .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_integer(node, range, field(recipe)); };
  key.print = [=](const Recipe& recipe) { return Json(field(recipe)); };
  return key;
}

// A number that is left open (auto, or 0) is held as 0.
template <typename Field>
RecipeKey zero_is_auto_key(std::string_view name, IntegerRange range, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = allowed_text(range) + ", or auto", .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) -> std::optional<BadValue> {
    if (is_auto(node)) {
      field(recipe) = 0;
      return std::nullopt;
    }
    return read_integer(node, {0, range.high}, field(recipe));
  };
  key.print = [=](const Recipe& recipe) { return field(recipe) > 0 ? Json(field(recipe)) : Json("auto"); };
  return key;
}

// How a recipe writes a number that is left open; null is understood for both.
enum class Absent : uint8_t { null, automatic };

// The field is an optional: `key` with a reader that knows how it is left open, and reads other values with
// `read`.
template <typename Field, typename Read>
RecipeKey left_open(RecipeKey key, Absent absent, Field field, Read read) {
  using Value = typename std::remove_cvref_t<decltype(field(std::declval<Recipe&>()))>::value_type;
  bool may_be_auto = absent == Absent::automatic;
  key.allowed += may_be_auto ? ", or auto" : ", or null";
  key.read = [=](const YamlNode& node, Recipe& recipe) -> std::optional<BadValue> {
    if (may_be_auto ? is_auto(node) : is_null(node)) {
      field(recipe).reset();
      return std::nullopt;
    }
    Value value{};
    std::optional<BadValue> bad = read(node, value);
    if (!bad) {
      field(recipe) = value;
    }
    return bad;
  };
  key.print = [=](const Recipe& recipe) {
    return field(recipe) ? Json(*field(recipe)) : may_be_auto ? Json("auto") : Json();
  };
  return key;
}

template <typename Field>
RecipeKey optional_integer_key(std::string_view name, IntegerRange range, Absent absent, Field field,
                               std::string_view help) {
  return left_open({.name = name, .allowed = allowed_text(range), .help = help}, absent, field,
                   [=](const YamlNode& node, int64_t& out) { return read_integer(node, range, out); });
}

template <typename Field>
RecipeKey number_key(std::string_view name, NumberRange range, Field field, std::string_view example,
                     std::string_view help) {
  RecipeKey key{.name = name, .allowed = allowed_text(range), .example = std::string(example), .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_number(node, range, field(recipe)); };
  key.print = [=](const Recipe& recipe) { return Json(field(recipe)); };
  return key;
}

// Numbers by name, all of them optional.
template <typename Names, typename Field>
RecipeKey numbers_key(std::string_view name, const Names& names, Field field, std::string_view example,
                      std::string_view help) {
  RecipeKey key{.name = name, .allowed = allowed_text(names), .example = std::string(example), .help = help};
  key.read = [field, &names](const YamlNode& node, Recipe& recipe) {
    return read_numbers(node, names, field(recipe));
  };
  key.print = [=](const Recipe& recipe) {
    const NumberMap& numbers = field(recipe);
    return numbers.empty() ? Json::object() : Json(numbers);
  };
  return key;
}

template <typename Field>
RecipeKey optional_number_key(std::string_view name, NumberRange range, Field field, std::string_view example,
                              std::string_view help) {
  return left_open(
      {.name = name, .allowed = allowed_text(range), .example = std::string(example), .help = help},
      Absent::null, field, [=](const YamlNode& node, double& out) { return read_number(node, range, out); });
}

template <typename Field>
RecipeKey bool_key(std::string_view name, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = "true or false", .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_bool(node, field(recipe)); };
  key.print = [=](const Recipe& recipe) { return Json(field(recipe)); };
  return key;
}

template <typename Field>
RecipeKey optional_bool_key(std::string_view name, Field field, std::string_view help) {
  return left_open({.name = name, .allowed = "true or false", .help = help}, Absent::automatic, field,
                   read_bool);
}

template <typename Field>
RecipeKey path_key(std::string_view name, std::string allowed, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = std::move(allowed), .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_text(node, field(recipe)); };
  key.print = [=](const Recipe& recipe) { return Json(field(recipe)); };
  return key;
}

template <typename Field>
RecipeKey required_path_key(std::string_view name, std::string allowed, Field field, std::string_view help) {
  RecipeKey key = path_key(name, std::move(allowed), field, help);
  key.required = true;
  return key;
}

// The same key, which may also be null; the recipe holds that as empty.
template <typename Field>
RecipeKey or_null(RecipeKey key, Field field) {
  key.allowed += ", or null";
  key.read = [field, read = key.read](const YamlNode& node, Recipe& recipe) -> std::optional<BadValue> {
    if (is_null(node)) {
      field(recipe).clear();
      return std::nullopt;
    }
    return read(node, recipe);
  };
  key.print = [field, print = key.print](const Recipe& recipe) {
    return field(recipe).empty() ? Json() : print(recipe);
  };
  return key;
}

template <typename Field>
RecipeKey optional_path_key(std::string_view name, std::string allowed, Field field, std::string_view help) {
  return or_null(path_key(name, std::move(allowed), field, help), field);
}

template <typename Choices, typename Field>
RecipeKey choice_key(std::string_view name, const Choices& choices, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = allowed_text(names_in(choices)), .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) {
    size_t index = 0;
    std::optional<BadValue> bad = read_choice(node, names_in(choices), index);
    if (!bad) {
      field(recipe) = choices[index].second;
    }
    return bad;
  };
  key.print = [=](const Recipe& recipe) { return Json(name_of(field(recipe))); };
  return key;
}

template <typename Field>
RecipeKey names_key(std::string_view name, std::string allowed, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = std::move(allowed), .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_text_or_list(node, field(recipe)); };
  key.print = [=](const Recipe& recipe) {
    const std::vector<std::string>& names = field(recipe);
    return names.size() == 1 ? Json(names.front()) : Json(names);
  };
  return key;
}

template <typename Field>
RecipeKey optional_names_key(std::string_view name, std::string allowed, Field field, std::string_view help) {
  return or_null(names_key(name, std::move(allowed), field, help), field);
}

// Numbers for the modules that a regular expression names.
template <typename Range, typename Field>
RecipeKey patterns_key(std::string_view name, Range range, Field field, std::string_view example,
                       std::string_view help) {
  RecipeKey key{.name = name,
                .allowed = fmt::format("a map from modules to {}", allowed_text(range)),
                .example = std::string(example),
                .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_patterns(node, range, field(recipe)); };
  key.print = [=](const Recipe& recipe) {
    Json map = Json::object();
    for (const auto& [pattern, value] : field(recipe)) {
      map[pattern] = value;
    }
    return map;
  };
  return key;
}

template <typename Field>
RecipeKey required_files_key(std::string_view name, Field field, std::string_view help) {
  RecipeKey key{.name = name,
                .allowed = "a file, or a list of files and {path, weight above 0 and up to a million}",
                .example = "[chat.jsonl, {path: code/*.jsonl.gz, weight: 0.5}]",
                .help = help,
                .required = true};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_files(node, field(recipe)); };
  key.print = [=](const Recipe& recipe) { return files_json(field(recipe)); };
  return key;
}

// Text of several lines.
template <typename Field>
RecipeKey optional_lines_key(std::string_view name, std::string allowed, Field field, std::string_view help) {
  RecipeKey key = path_key(name, std::move(allowed), field, help);
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_lines(node, field(recipe)); };
  return or_null(std::move(key), field);
}

template <typename Field>
RecipeKey size_key(std::string_view name, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = "a size such as 24GB or 22.3GiB, or null", .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_size(node, field(recipe)); };
  key.print = [=](const Recipe& recipe) { return field(recipe) ? Json(exact_size(*field(recipe))) : Json(); };
  return key;
}

template <typename Field>
RecipeKey dtype_key(std::string_view name, Field field, std::string_view help) {
  RecipeKey key{.name = name, .allowed = "auto, fp32, bf16 or fp16", .help = help};
  key.read = [=](const YamlNode& node, Recipe& recipe) { return read_dtype(node, field(recipe)); };
  key.print = [=](const Recipe& recipe) {
    return field(recipe) ? Json(name_of(*field(recipe))) : Json("auto");
  };
  return key;
}

}  // namespace snug
