// Which modules of a model a setting is for, by PEFT's rules.
#pragma once

#include <optional>
#include <regex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace snug {

// target_modules and exclude_modules: full names, or ends of names such as q_proj. A single one that is more
// than a name is a regular expression for the whole name, as a string is for PEFT.
class ModuleNames {
 public:
  // `key` names the setting in errors.
  ModuleNames(const std::vector<std::string>& names, std::string_view key);

  bool contains(const std::string& module) const;

 private:
  const std::vector<std::string>& names_;
  std::optional<std::regex> expression_;
};

// Whether the names are one regular expression.
bool is_expression(const std::vector<std::string>& names);

// A regular expression in Python's syntax, as far as both sides agree; throws bad_input for the rest. It
// takes no more than (its length) x (the text's length) steps, whatever its author had in mind.
std::regex module_expression(const std::string& text, std::string_view key);

// rank_pattern and alpha_pattern: the value of the first expression that a module's name, or its end after a
// dot, is an instance of.
template <typename Value>
class ModuleValues {
 public:
  ModuleValues(const std::vector<std::pair<std::string, Value>>& patterns, std::string_view key) {
    for (const auto& [text, value] : patterns) {
      expressions_.emplace_back(module_expression("(.*\\.)?(" + text + ")", key), value);
    }
  }

  Value of(const std::string& module, Value otherwise) const {
    for (const auto& [expression, value] : expressions_) {
      if (std::regex_match(module, expression)) {
        return value;
      }
    }
    return otherwise;
  }

 private:
  std::vector<std::pair<std::regex, Value>> expressions_;
};

}  // namespace snug
