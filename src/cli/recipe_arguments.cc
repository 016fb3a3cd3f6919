// Arguments that name a recipe and change its keys.
#include "cli/commands.h"

namespace snug {

void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments) {
  command.add_option("recipe", arguments.path, "The recipe (YAML)")->required();
  command
      .add_option("--set", arguments.overrides, "Change a key: section.key=value; may be given several times")
      ->allow_extra_args(false);
  command.add_option("--memory", arguments.memory, "The memory limit, e.g. 24GB or 22.3GiB (memory.limit)");
}

std::vector<std::string> all_overrides(const RecipeArguments& arguments) {
  std::vector<std::string> overrides = arguments.overrides;
  if (!arguments.memory.empty()) {
    overrides.push_back("memory.limit=" + arguments.memory);
  }
  return overrides;
}

}  // namespace snug
