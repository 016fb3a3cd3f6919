// Names, ends of names, and expressions.
#include "compile/module_names.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"

namespace snug {
namespace {

constexpr std::string_view kAllLinear = "all-linear";
constexpr size_t kLongestExpression = 2000;

// Letters behind a backslash that mean the same to Python's re and to std::regex; others (\A, \Z,
// back-references) do not.
bool has_foreign_escape(std::string_view text) {
  constexpr std::string_view kShared = "dDwWsSnrtfv";
  for (size_t i = 0; i + 1 < text.size(); ++i) {
    if (text[i] != '\\') {
      continue;
    }
    char next = text[++i];
    bool is_word =
        (next >= 'a' && next <= 'z') || (next >= 'A' && next <= 'Z') || (next >= '0' && next <= '9');
    if (is_word && kShared.find(next) == std::string_view::npos) {
      return true;
    }
  }
  return false;
}

}  // namespace

bool is_expression(const std::vector<std::string>& names) {
  return names.size() == 1 && names[0].find_first_of("\\*+?()[]{}|^$") != std::string::npos;
}

std::regex module_expression(const std::string& text, std::string_view key) {
  auto refused = [&](std::string_view why) {
    return bad_input(
        fmt::format("{}: {} is no regular expression that snug reads ({}): use names, ends of names, or . * "
                    "+ ? | ( ) [ ] "
                    "and \\d",
                    key, in_quotes(text, 200), why));
  };
  if (text.size() > kLongestExpression) {
    throw refused("it is too long");
  }
  if (has_foreign_escape(text)) {
    throw refused("an escape in it is unknown");
  }
  try {
    // Breadth first: time grows with the product of the lengths, not exponentially.
    return std::regex(text, std::regex::ECMAScript | std::regex_constants::__polynomial);
  } catch (const std::regex_error& error) {
    throw refused(error.what());
  }
}

ModuleNames::ModuleNames(const std::vector<std::string>& names, std::string_view key) : names_(names) {
  if (is_expression(names)) {
    expression_ = module_expression(names[0], key);
  }
}

bool ModuleNames::contains(const std::string& module) const {
  if (expression_) {
    return std::regex_match(module, *expression_);
  }
  return std::any_of(names_.begin(), names_.end(), [&](const std::string& name) {
    return name == kAllLinear || module == name || module.ends_with("." + name);
  });
}

}  // namespace snug
