// The commands. Each adds itself to the command line; the chosen one returns the exit code.
#pragma once

#include <CLI/CLI.hpp>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

namespace snug {

inline constexpr int kExitOk = 0;
inline constexpr int kExitEnvironment = 1;
inline constexpr int kExitBadInput = 2;
inline constexpr int kExitDoesNotFit = 3;
inline constexpr int kExitStopped = 4;  // by a signal; what was learned is saved

// Set by the callback of the command that was chosen.
using Action = std::function<int()>;

void add_inspect_command(CLI::App& app, Action& action);
void add_init_command(CLI::App& app, Action& action);
void add_plan_command(CLI::App& app, Action& action);
void add_fit_command(CLI::App& app, Action& action);
void add_data_command(CLI::App& app, Action& action);
void add_train_command(CLI::App& app, Action& action);
void add_generate_command(CLI::App& app, Action& action);
void add_synth_command(CLI::App& app, Action& action);
void add_tokenize_command(CLI::App& app, Action& action);
void add_diff_command(CLI::App& app, Action& action);
void add_runs_command(CLI::App& app, Action& action);
void add_watch_command(CLI::App& app, Action& action);
void add_doctor_command(CLI::App& app, Action& action);
void add_explain_command(CLI::App& app, Action& action);
void add_cache_command(CLI::App& app, Action& action);
void add_docs_command(CLI::App& app, Action& action);

// Where runs are looked for: what was given, else the usual folder if it is there.
inline constexpr const char* kUsualRunsFolder = "runs";
std::vector<std::filesystem::path> run_folders(const std::vector<std::string>& given);
std::string no_runs_text(const std::vector<std::string>& given);

// --set and --memory, which plan and train share.
struct RecipeArguments {
  std::string path;
  std::vector<std::string> overrides;
  std::string memory;
};
void add_recipe_arguments(CLI::App& command, RecipeArguments& arguments);
// The overrides with --memory among them, as --set would write it.
std::vector<std::string> all_overrides(const RecipeArguments& arguments);

}  // namespace snug
