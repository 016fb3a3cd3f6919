// snug docs: reference pages that are made from the code.
#include <fmt/format.h>

#include "backend/cuda_plan/catalogue.h"
#include "cli/commands.h"
#include "recipe/reference.h"

namespace snug {

void add_docs_command(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("docs", "Reference pages, as Markdown");
  command->require_subcommand(1);
  auto add_page = [&](const char* name, const char* about, std::string (*page)()) {
    command->add_subcommand(name, about)->callback([page, &action] {
      action = [page] {
        fmt::print("{}", page());
        return kExitOk;
      };
    });
  };
  add_page("recipe", "Every key of a recipe", recipe_reference_markdown);
  add_page("cards", "The cards that snug plan --gpu knows", catalogue_markdown);
}

}  // namespace snug
