// snug runs [FOLDER...]
#include <fmt/format.h>

#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "cli/commands.h"
#include "io/json.h"
#include "io/printable.h"
#include "report/runs_report.h"

namespace snug {
namespace {

struct RunsOptions {
  std::vector<std::string> folders;
  bool json = false;
};

int runs_command(const RunsOptions& options) {
  std::vector<std::filesystem::path> folders = run_folders(options.folders);
  RunReader reader;
  RunList list = list_runs(folders, reader);
  if (options.json) {
    fmt::print("{}\n", json_text(runs_json(list)));
  } else if (list.runs.empty() && list.unreadable.empty()) {
    fmt::print("  {}\n", no_runs_text(options.folders));
  } else {
    fmt::print("{}", runs_report(list, Style::for_stdout()));
  }
  return kExitOk;
}

}  // namespace

std::vector<std::filesystem::path> run_folders(const std::vector<std::string>& given) {
  if (given.empty() && std::filesystem::is_directory(kUsualRunsFolder)) {
    return {kUsualRunsFolder};
  }
  return {given.begin(), given.end()};
}

std::string no_runs_text(const std::vector<std::string>& given) {
  std::string where = given.empty() ? kUsualRunsFolder : given.front();
  return fmt::format("no run of snug in {}{}; a run is where a recipe's output_dir says (snug runs FOLDER)",
                     in_quotes(where), given.size() > 1 ? " and the others" : "");
}

void add_runs_command(CLI::App& app, Action& action) {
  auto options = std::make_shared<RunsOptions>();
  CLI::App* command =
      app.add_subcommand("runs", "Lists runs, also those that are running, and compares them");
  command->add_option("folder", options->folders, "Runs, or folders with runs in them; by default runs/");
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "\nOf each run: its state, steps of all, the first and the last loss, the lowest\n"
      "evaluation loss, tokens a second (the median), trained parameters, the planned\n"
      "peak of memory, when it began; then the settings that differ. Stages are listed\n"
      "one by one. A run that stopped can be resumed; of one that failed it says why.\n"
      "\nExamples:\n"
      "  snug runs\n"
      "  snug runs runs/monday runs/tuesday\n"
      "  snug runs --json | jq '.runs[] | select(.state == \"running\") | .name'");
  command->callback([options, &action] { action = [options] { return runs_command(*options); }; });
}

}  // namespace snug
