// snug inspect MODEL
#include <fmt/format.h>

#include <memory>

#include "cli/commands.h"
#include "io/json.h"
#include "model/locate.h"
#include "report/inspect_report.h"

namespace snug {

void add_inspect_command(CLI::App& app, Action& action) {
  struct Options {
    std::string model;
    int64_t rank = 16;
    bool json = false;
  };
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand("inspect", "What a model is: shapes, exact counts, bytes");
  command->add_option("model", options->model, "A model's folder")->required();
  command->add_option("--rank", options->rank, "The LoRA rank to count for")->check(CLI::Range(1, 65536));
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("\nExample:\n  snug inspect models/tiny-story --rank 8 --json");
  command->callback([options, &action] {
    action = [options] {
      Inspection inspection = inspect(locate_model(options->model).spec, options->rank);
      if (options->json) {
        fmt::print("{}\n", json_text(inspection_json(inspection)));
      } else {
        fmt::print("{}", inspection_text(inspection, Style::for_stdout()));
      }
      return kExitOk;
    };
  });
}

}  // namespace snug
