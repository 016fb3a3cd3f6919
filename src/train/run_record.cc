// Reading a run's folder.
#include "train/run_record.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"
#include "base/version.h"
#include "io/atomic_file.h"
#include "io/printable.h"
#include "recipe/parse.h"
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
    }
    if (std::optional<double> speed = number_in(row, "tokens_per_second")) {
      speeds.push_back(*speed);
    }
  }
  figures.tokens_per_second = median(std::move(speeds));
  return figures;
}

RunRecord read_record(const fs::path& folder) {
  Json manifest = read_manifest(folder);
  std::string path = (folder / kManifest).string();
  for (const char* name : {kRecipeFile, kPlanFile}) {
    if (!fs::exists(folder / name)) {
      throw bad_input(
          fmt::format("{}: the run has not come as far as its {}", in_quotes(folder.string()), name));
    }
  }
  return {.state = json_string(manifest, "state", "", path),
          .origin = origin_from_json(manifest, path),
          .recipe = read_recipe(folder / kRecipeFile),
          .plan = read_json(folder / kPlanFile),
          .figures = read_figures(folder / kMetricsFile)};
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

std::vector<RunRecord> read_run_records(const fs::path& folder) {
  Json manifest = read_manifest(folder);
  std::vector<RunRecord> records;
  Json stages = manifest.value("stages", Json::array());
  if (!stages.is_array() || stages.empty()) {
    records.push_back(read_record(folder));
    return records;
  }
  // Only together do stages know what is stacked below them.
  std::vector<Recipe> recipes = read_recipes(folder / kRecipeFile);
  for (const Recipe& recipe : recipes) {
    if (holds_run(folder / recipe.stage.name)) {  // else the run has not come as far
      records.push_back(read_record(folder / recipe.stage.name));
      records.back().recipe = recipe;
    }
  }
  return records;
}

}  // namespace snug
