// snug docs: reference pages that are made from the code.
#include <fmt/format.h>

#include "cli/commands.h"
#include "recipe/reference.h"

namespace snug {

void add_docs_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("docs", "Reference pages, as Markdown");
  command->require_subcommand(1);
  command->add_subcommand("recipe", "Every key of a recipe")->callback([&action] {
    action = [] {
      fmt::print("{}", recipe_reference_markdown());
      return kExitOk;
    };
  });
}

}  // namespace snug
