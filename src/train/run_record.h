// What a run's folder tells of the run: by which program, on which device, with which model and data, what
// was planned, and how it went.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "io/json.h"
#include "recipe/recipe.h"
#include "train/resume_point.h"

namespace snug {

// Written into the manifest when a run begins; "" is not known.
struct RunOrigin {
  std::string version;
  std::string commit;
  std::string device;  // "cpu", "cuda:0"
  std::string model_of_device;
  std::string driver;
  RunIdentity identity;
};
RunOrigin origin_of(const Device& device, const RunIdentity& identity);
Json origin_to_json(const RunOrigin& origin);

// How far it came and how fast; of a run that is not finished, as its metrics have it.
struct RunFigures {
  int64_t steps = 0;
  std::optional<double> first_loss;
  std::optional<double> last_loss;
  std::optional<double> eval_loss;          // of the last evaluation
  std::optional<double> best_eval_loss;     // the lowest
  std::optional<double> tokens_per_second;  // the median of the logged steps
  std::optional<double> last_time;          // of the newest row, in seconds since 1970
};

enum class RunOutcome {
  running,   // a process has its folder
  finished,  // with its result
  stopped,   // by a signal, or killed: it can go on from a checkpoint
  failed,    // nothing was to be learned any more, or nothing is left to go on from
};
std::string_view name_of(RunOutcome outcome);

struct RunRecord {
  std::filesystem::path folder;
  std::string state;  // "running", "stopped", "complete"
  RunOutcome outcome = RunOutcome::failed;
  std::string failure = {};  // why it failed
  std::string started;       // "2026-11-16T10:03:07Z"; of the part that went on
  std::optional<int64_t> total_steps;
  RunOrigin origin;
  Recipe recipe;  // as it was run, with what was chosen
  Json plan;
  RunFigures figures;
};

// Whether a folder says that a run of snug is in it.
bool holds_run(const std::filesystem::path& folder);
// Runs in a folder and in those below it, by name; one that holds a run itself is that run.
std::vector<std::filesystem::path> find_runs(const std::filesystem::path& folder);
// One record, or one a stage. Throws bad_input, naming the file, for one that cannot be read.
std::vector<RunRecord> read_run_records(const std::filesystem::path& folder);

}  // namespace snug
