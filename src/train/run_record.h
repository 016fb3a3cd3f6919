// What a run's folder tells of the run: by which program, on which device, with which model and data, what
// was planned, and how it went.
#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "io/json.h"
#include "plan/plan_figures.h"
#include "recipe/recipe.h"
#include "train/resume_point.h"
#include "train/run_figures.h"

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
  PlanFigures plan;
  bool has_layout = false;  // plan.json says where each buffer lies
  RunFigures figures;
};

// Whether a folder says that a run of snug is in it.
bool holds_run(const std::filesystem::path& folder);

struct FoundRuns {
  std::vector<std::filesystem::path> folders;
  struct Closed {
    std::filesystem::path folder;
    std::string reason;
  };
  std::vector<Closed> closed;  // folders into which nobody could look
};
// Runs in a folder and in those below it, by name; one that holds a run itself is that run.
FoundRuns find_runs(const std::filesystem::path& folder);

// Reads run folders, again and again where that is asked for: a recipe or plan that has not changed is taken
// from before, and of metrics only the new rows are read.
class RunReader {
 public:
  // One record, or one a stage. Throws bad_input, naming the file, for one that cannot be read.
  std::vector<RunRecord> read(const std::filesystem::path& folder);

 private:
  // What was read of a file, and what told that it is still the same.
  template <typename Value>
  struct Known {
    std::string signature;
    Value value;
  };
  template <typename Value>
  using KnownFiles = std::map<std::filesystem::path, Known<Value>>;
  struct PlanFile {
    PlanFigures figures;
    bool has_layout = false;
  };
  template <typename Value, typename Read>
  static const Value& known(KnownFiles<Value>& files, const std::filesystem::path& file, const Read& read);
  RunRecord read_record(const std::filesystem::path& folder, const Recipe& recipe, bool is_locked);

  KnownFiles<std::vector<Recipe>> recipes_;
  KnownFiles<PlanFile> plans_;
  std::map<std::filesystem::path, MetricsReader> metrics_;
};

}  // namespace snug
