// Reading a run's folder.
#include "train/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

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

std::optional<double> number_in(const Json& row, const char* key) {
  auto found = row.find(key);
  bool is_there = found != row.end() && found->is_number() && std::isfinite(found->get<double>());
  return is_there ? std::optional(found->get<double>()) : std::nullopt;
}

std::optional<double> median(std::vector<double> values) {
  if (values.empty()) {
    return std::nullopt;
  }
  auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

// A run may be writing its last line now.
RunFigures read_figures(const fs::path& path) {
  RunFigures figures;
  if (!fs::exists(path)) {
    return figures;
  }
  std::string text = read_text_file(path);
  std::vector<double> speeds;
  for (size_t begin = 0, end = text.find('\n'); end != std::string::npos;
       begin = end + 1, end = text.find('\n', begin)) {
    Json row = parse_json(std::string_view(text).substr(begin, end - begin), path.string());
    if (!row.is_object()) {
      continue;
    }
    figures.steps = std::max(figures.steps, json_integer(row, "step", 0, path.string()));
    if (std::optional<double> loss = number_in(row, "loss")) {
      figures.first_loss = figures.first_loss.value_or(*loss);
      figures.last_loss = loss;
    }
    if (std::optional<double> loss = number_in(row, "eval_loss")) {
      figures.eval_loss = loss;
      figures.best_eval_loss = std::min(figures.best_eval_loss.value_or(*loss), *loss);
    }
    if (std::optional<double> speed = number_in(row, "tokens_per_second")) {
      speeds.push_back(*speed);
    }
    if (std::optional<double> time = number_in(row, "time")) {
      figures.last_time = time;
    }
  }
  figures.tokens_per_second = median(std::move(speeds));
  return figures;
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

RunRecord read_record(const fs::path& folder, bool is_locked) {
  Json manifest = read_manifest(folder);
  std::string path = (folder / kManifest).string();
  for (const char* name : {kRecipeFile, kPlanFile}) {
    if (!fs::exists(folder / name)) {
      throw bad_input(
          fmt::format("{}: the run has not come as far as its {}", in_quotes(folder.string()), name));
    }
  }
  RunRecord record{.folder = folder,
                   .state = json_string(manifest, "state", "", path),
                   .started = json_string(manifest, "started", "", path),
                   .total_steps = std::nullopt,
                   .origin = origin_from_json(manifest, path),
                   .recipe = read_recipe(folder / kRecipeFile),
                   .plan = read_json(folder / kPlanFile),
                   .figures = read_figures(folder / kMetricsFile)};
  int64_t planned = std::max<int64_t>(record.recipe.training.max_steps, 0);
  if (int64_t steps = json_integer(manifest, "total_steps", planned, path); steps > 0) {
    record.total_steps = steps;
  }
  judge(record, is_locked);
  return record;
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

void add_runs(const fs::path& folder, int depth, std::vector<fs::path>& found) {
  if (holds_run(folder)) {
    if (!is_strangers(folder)) {
      found.push_back(folder);
    }
    return;
  }
  std::vector<fs::path> inner;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    std::error_code unreadable;
    if (at->is_directory(unreadable) && !at->path().filename().string().starts_with('.')) {
      inner.push_back(at->path());
    }
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

std::vector<fs::path> find_runs(const fs::path& folder) {
  constexpr int kFoldersBelow = 3;
  std::vector<fs::path> found;
  add_runs(folder, kFoldersBelow, found);
  return found;
}

std::vector<RunRecord> read_run_records(const fs::path& folder) {
  Json manifest = read_manifest(folder);
  bool is_locked = is_folder_locked(folder);
  std::vector<RunRecord> records;
  Json stages = manifest.value("stages", Json::array());
  if (!stages.is_array() || stages.empty()) {
    records.push_back(read_record(folder, is_locked));
    return records;
  }
  // Only together do stages know what is stacked below them.
  std::vector<Recipe> recipes = read_recipes(folder / kRecipeFile);
  for (const Recipe& recipe : recipes) {
    if (holds_run(folder / recipe.stage.name)) {  // else the run has not come as far
      records.push_back(read_record(folder / recipe.stage.name, is_locked));
      records.back().recipe = recipe;
    }
  }
  return records;
}

}  // namespace snug
