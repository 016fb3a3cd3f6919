// Arguments that name a recipe and change its keys.
#include <fmt/format.h>

#include "base/bytes.h"
#include "base/error.h"
#include "cli/argument_checks.h"
#include "cli/commands.h"
#include "io/printable.h"

namespace snug {

void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments) {
  command.add_option("recipe", arguments.path, "The recipe (YAML)")->required();
  command
      .add_option("--set", arguments.overrides, "Change a key: section.key=value; may be given several times")
      ->allow_extra_args(false);
  command.add_option("--memory", arguments.memory, "The memory limit, e.g. 24GB or 22.3GiB (memory.limit)")
      ->check(find_emptiness);
}

std::vector<std::string> all_overrides(const RecipeArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.memory.empty()) {
    if (parse_bytes(arguments.memory).value_or(0) <= 0) {
      throw bad_input(fmt::format("--memory is {}: expected a size such as 24GB or 22.3GiB",
                                  in_quotes(arguments.memory)));
    }
    overrides.push_back("memory.limit=" + arguments.memory);
  }
  return overrides;
}

}  // namespace snug
