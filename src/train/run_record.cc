// Reading a run's folder.
#include "train/run_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "base/version.h"
#include "io/atomic_file.h"
#include "io/folder_lock.h"
#include "io/printable.h"
#include "recipe/parse.h"
#include "train/checkpoint_folder.h"
#include "train/run_files.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOrigin = "origin";

Json read_manifest(const fs::path& folder) {
  fs::path path = folder / kManifest;
  Json manifest = read_json(path);
  if (!manifest.is_object() || json_string(manifest, "made_by", "", path.string()) != "snug") {
    throw bad_input(fmt::format("{}: not the manifest of a run of snug", in_quotes(path.string())));
  }
  return manifest;
}

RunOrigin origin_from_json(const Json& manifest, const std::string& path) {
  Json json = manifest.value(kOrigin, Json::object());
  if (!json.is_object()) {
    return {};  // as if an earlier version had written it
  }
  auto text = [&](const char* key) { return json_string(json, key, "", path); };
  return {
      .version = text("version"),
      .commit = text("commit"),
      .device = text("device"),
      .model_of_device = text("device_model"),
      .driver = text("driver"),
      .identity = {.train_data = text("train_data"), .eval_data = text("eval_data"), .model = text("model")}};
}

// How the run of a manifest ended, if it did.
void judge(RunRecord& record, bool is_locked) {
  if (record.state == "complete") {
    record.outcome = RunOutcome::finished;
    return;
  }
  if (is_locked) {
    record.outcome = RunOutcome::running;
    return;
  }
  fs::path summary = record.folder / kSummaryFile;
  // One that is there while the manifest says "running" is of an earlier part.
  if (record.state == "stopped" && fs::exists(summary)) {
    record.failure = json_string(read_json(summary), "stopped_because", "", summary.string());
  }
  if (record.failure.empty() && find_checkpoints(record.folder).empty()) {
    record.failure = "it ended without a result and without a checkpoint";
  }
  record.outcome = record.failure.empty() ? RunOutcome::stopped : RunOutcome::failed;
}

// Changes when the file does.
std::string signature_of(const fs::path& file) {
  std::error_code ignored;
  uintmax_t bytes = fs::file_size(file, ignored);
  auto time = fs::last_write_time(file, ignored).time_since_epoch().count();
  return fmt::format("{} {}", bytes, time);
}

void require_file(const fs::path& folder, const char* name) {
  if (!fs::exists(folder / name)) {
    throw bad_input(
        fmt::format("{}: the run has not come as far as its {}", in_quotes(folder.string()), name));
  }
}

// Whether a manifest of somebody else lies there; one that cannot be read may be of a run.
bool is_strangers(const fs::path& folder) {
  try {
    Json manifest = read_json(folder / kManifest);
    return !manifest.is_object() || manifest.value("made_by", Json()) != Json("snug");
  } catch (const Error&) {
    return false;
  }
}

void add_runs(const fs::path& folder, int depth, FoundRuns& found) {
  std::error_code error;
  fs::file_status manifest = fs::status(folder / kManifest, error);
  if (manifest.type() == fs::file_type::none) {  // it may be there: who may only list names cannot tell
    found.closed.push_back({.folder = folder, .reason = error.message()});
    return;
  }
  if (fs::is_regular_file(manifest)) {
    if (!is_strangers(folder)) {
      found.folders.push_back(folder);
    }
    return;
  }
  std::vector<fs::path> inner;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    std::error_code unreadable;
    if (at->is_directory(unreadable) && !at->path().filename().string().starts_with('.')) {
      inner.push_back(at->path());
    }
  }
  if (error) {
    found.closed.push_back({.folder = folder, .reason = error.message()});
  }
  std::sort(inner.begin(), inner.end());
  for (const fs::path& one : inner) {
    if (depth > 0) {
      add_runs(one, depth - 1, found);
    }
  }
}

}  // namespace

RunOrigin origin_of(const Device& device, const RunIdentity& identity) {
  DeviceIdentity found = device.identity();
  return {.version = std::string(program_version()),
          .commit = std::string(program_commit()),
          .device = device.label(),
          .model_of_device = found.model,
          .driver = found.driver,
          .identity = identity};
}

Json origin_to_json(const RunOrigin& origin) {
  return {{"version", origin.version},
          {"commit", origin.commit},
          {"device", origin.device},
          {"device_model", origin.model_of_device},
          {"driver", origin.driver},
          {"model", origin.identity.model},
          {"train_data", origin.identity.train_data},
          {"eval_data", origin.identity.eval_data}};
}

bool holds_run(const fs::path& folder) {
  std::error_code ignored;
  return fs::is_regular_file(folder / kManifest, ignored);
}

std::string_view name_of(RunOutcome outcome) {
  switch (outcome) {
    case RunOutcome::running:
      return "running";
    case RunOutcome::finished:
      return "finished";
    case RunOutcome::stopped:
      return "stopped";
    case RunOutcome::failed:
      return "failed";
  }
  return "";
}

FoundRuns find_runs(const fs::path& folder) {
  constexpr int kFoldersBelow = 3;
  FoundRuns found;
  add_runs(folder, kFoldersBelow, found);
  return found;
}

template <typename Value, typename Read>
const Value& RunReader::known(KnownFiles<Value>& files, const fs::path& file, const Read& read) {
  std::string signature = signature_of(file);
  auto found = files.find(file);
  if (found == files.end() || found->second.signature != signature) {
    found = files.insert_or_assign(file, Known<Value>{signature, read(file)}).first;
  }
  return found->second.value;
}

RunRecord RunReader::read_record(const fs::path& folder, const Recipe& recipe, bool is_locked) {
  Json manifest = read_manifest(folder);
  std::string path = (folder / kManifest).string();
  require_file(folder, kPlanFile);
  fs::path plan_file = folder / kPlanFile;
  const PlanFile& plan = known(plans_, plan_file, [](const fs::path& file) {
    Json json = read_json(file);
    bool has_layout = json.is_object() && json.erase("layout") > 0;  // large, and of no use here
    return PlanFile{read_plan_figures(json, file.string()), has_layout};
  });
  RunRecord record{.folder = folder,
                   .state = json_string(manifest, "state", "", path),
                   .started = json_string(manifest, "started", "", path),
                   .total_steps = std::nullopt,
                   .origin = origin_from_json(manifest, path),
                   .recipe = recipe,
                   .plan = plan.figures,
                   .has_layout = plan.has_layout,
                   .figures = metrics_[folder].read(folder / kMetricsFile)};
  int64_t planned = std::max<int64_t>(recipe.training.max_steps, 0);
  if (int64_t steps = json_integer(manifest, "total_steps", planned, path); steps > 0) {
    record.total_steps = steps;
  }
  judge(record, is_locked);
  return record;
}

std::vector<RunRecord> RunReader::read(const fs::path& folder) {
  Json manifest = read_manifest(folder);
  bool is_locked = is_folder_locked(folder);
  require_file(folder, kRecipeFile);
  Json stages = manifest.value("stages", Json::array());
  bool is_staged = stages.is_array() && !stages.empty();
  // Only together do stages know what is stacked below them.
  fs::path recipe_file = folder / kRecipeFile;
  const std::vector<Recipe>& recipes = known(recipes_, recipe_file, [&](const fs::path& file) {
    return is_staged ? read_recipes(file) : std::vector<Recipe>{read_recipe(file)};
  });
  std::vector<RunRecord> records;
  for (const Recipe& recipe : recipes) {
    fs::path place = is_staged ? folder / recipe.stage.name : folder;
    if (!is_staged || holds_run(place)) {  // else the run has not come as far
      records.push_back(read_record(place, recipe, is_locked));
    }
  }
  return records;
}

}  // namespace snug
