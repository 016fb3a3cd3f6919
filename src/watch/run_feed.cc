// Reading runs for the page.
#include "watch/run_feed.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>

#include "io/atomic_file.h"
#include "io/growing_rows.h"
#include "plan/plan_figures.h"
#include "report/plan_page.h"
#include "train/run_files.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Several pages that ask at once get the same answer.
constexpr auto kFresh = std::chrono::milliseconds(500);
constexpr const char* kHasLayout = "has_layout";

std::string id_of(const fs::path& folder) {
  return fmt::format("{:016x}", std::hash<std::string>()(folder.string()));
}

Json plan_for_page(const fs::path& folder) {
  std::string path = (folder / kPlanFile).string();
  Json plan = read_json(path);
  PlanFigures figures = read_plan_figures(plan, path);
  return picture_data("", figures.limit_bytes, figures.peak_phase, layout_from_json(plan.at("layout"), path));
}

// What runs with stages learned and forgot, of those that came to their end.
Json stage_tables(const std::vector<ListedRun>& runs) {
  Json tables = Json::array();
  std::vector<fs::path> seen;
  for (const ListedRun& run : runs) {
    fs::path root = run.record.folder.parent_path();
    bool is_stage = !run.record.recipe.stage.name.empty();
    if (!is_stage || std::find(seen.begin(), seen.end(), root) != seen.end()) {
      continue;
    }
    seen.push_back(root);
    fs::path file = root / kStagesFile;
    std::optional<Json> table = fs::exists(file) ? find_object(read_text_file(file)) : std::nullopt;
    if (table && table->value("stages", Json()).is_array() && table->value("sets", Json()).is_array()) {
      (*table)["name"] = root.filename().string();
      tables.push_back(std::move(*table));
    }
  }
  return tables;
}

}  // namespace

void RunFeed::refresh() {
  auto now = std::chrono::steady_clock::now();
  if (!refreshed_ || now - *refreshed_ > kFresh) {
    list_ = list_runs(folders_, reader_);
    refreshed_ = std::chrono::steady_clock::now();
  }
}

Json RunFeed::runs() {
  std::lock_guard lock(mutex_);
  refresh();
  Json json = runs_json(list_);
  for (size_t i = 0; i < list_.runs.size(); ++i) {
    const RunRecord& record = list_.runs[i].record;
    Json& run = json["runs"][i];
    run.erase("folder");  // where things lie is nobody's business
    run["id"] = id_of(record.folder);
    run[kHasLayout] = record.has_layout;
  }
  json["stages"] = stage_tables(list_.runs);
  return json;
}

std::optional<fs::path> RunFeed::folder_of(const std::string& id) {
  std::lock_guard lock(mutex_);
  refresh();
  auto found = std::find_if(list_.runs.begin(), list_.runs.end(),
                            [&](const ListedRun& run) { return id_of(run.record.folder) == id; });
  return found == list_.runs.end() ? std::nullopt : std::optional(found->record.folder);
}

std::optional<Json> RunFeed::rows(const std::string& id, int64_t offset, const std::string& mark) {
  std::optional<fs::path> folder = folder_of(id);
  if (!folder) {
    return std::nullopt;
  }
  RowNews news = read_new_rows(*folder / kMetricsFile, offset, mark);
  return std::make_optional(Json({{"from", news.from},
                                  {"offset", news.offset},
                                  {"mark", news.mark},
                                  {"more", news.more},
                                  {"rows", std::move(news.rows)}}));
}

std::optional<Json> RunFeed::plan(const std::string& id) {
  std::optional<fs::path> folder = folder_of(id);
  return folder ? std::optional(plan_for_page(*folder)) : std::nullopt;
}

Json RunFeed::everything() {
  Json json = runs();
  json["rows"] = Json::object();
  json["plans"] = Json::object();
  for (const Json& run : json["runs"]) {
    std::string id = run["id"];
    fs::path folder = *folder_of(id);
    json["rows"][id] =
        read_new_rows(folder / kMetricsFile, 0, "", std::numeric_limits<int64_t>::max() / 2).rows;
    if (run[kHasLayout] == true) {
      json["plans"][id] = plan_for_page(folder);
    }
  }
  json["written"] = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
  return json;
}

}  // namespace snug
