// Reading runs for the page.
#include "watch/run_feed.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>

#include "base/error.h"
#include "io/atomic_file.h"
#include "io/folder_lock.h"
#include "plan/plan_figures.h"
#include "report/plan_page.h"
#include "train/run_files.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

// Several pages that ask at once get the same answer.
constexpr auto kFresh = std::chrono::milliseconds(500);
constexpr int64_t kMarkBytes = 256;
constexpr const char* kHasLayout = "has_layout";

std::string id_of(const fs::path& folder) {
  return fmt::format("{:016x}", std::hash<std::string>()(folder.string()));
}

std::string mark_of(std::string_view text) {
  std::string_view end = text.substr(text.size() - std::min<size_t>(text.size(), kMarkBytes));
  return fmt::format("{:016x}", std::hash<std::string_view>()(end));
}

std::string bytes_between(std::ifstream& stream, int64_t begin, int64_t end) {
  std::string text(static_cast<size_t>(std::max<int64_t>(end - begin, 0)), '\0');
  stream.clear();
  stream.seekg(begin);
  stream.read(text.data(), std::ssize(text));
  text.resize(static_cast<size_t>(std::max<std::streamsize>(stream.gcount(), 0)));
  return text;
}

// Changes when a file of the run, or its state, does.
void add_signature(const fs::path& folder, std::string& text) {
  for (const char* name : {kManifest, kRecipeFile, kPlanFile, kMetricsFile, kSummaryFile}) {
    std::error_code ignored;
    uintmax_t bytes = fs::file_size(folder / name, ignored);
    auto time = fs::last_write_time(folder / name, ignored).time_since_epoch().count();
    text += fmt::format("{} {};", ignored ? 0 : bytes, ignored ? 0 : time);
  }
}

Json plan_for_page(const fs::path& folder) {
  std::string path = (folder / kPlanFile).string();
  Json plan = read_json(path);
  PlanFigures figures = read_plan_figures(plan, path);
  return picture_data("", figures.limit_bytes, figures.peak_phase, layout_from_json(plan.at("layout"), path));
}

// Nothing for what is no object, or too deep to be handled: whoever wrote it, the rest is shown.
std::optional<Json> read_object(std::string_view text) {
  try {
    Json found = parse_json(text, "");
    return found.is_object() ? std::optional(std::move(found)) : std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
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
    std::optional<Json> table = fs::exists(file) ? read_object(read_text_file(file)) : std::nullopt;
    if (table && table->value("stages", Json()).is_array() && table->value("sets", Json()).is_array()) {
      (*table)["name"] = root.filename().string();
      tables.push_back(std::move(*table));
    }
  }
  return tables;
}

}  // namespace

RowNews read_rows(const fs::path& file, int64_t offset, std::string_view mark, int64_t most_bytes) {
  RowNews news;
  std::ifstream stream(file, std::ios::binary);
  stream.seekg(0, std::ios::end);
  int64_t size = stream ? static_cast<int64_t>(stream.tellg()) : 0;
  bool goes_on = offset > 0 && offset <= size &&
                 mark_of(bytes_between(stream, std::max<int64_t>(offset - kMarkBytes, 0), offset)) == mark;
  news.from = goes_on ? offset : 0;
  std::string text = bytes_between(stream, news.from, std::min(size, news.from + most_bytes));
  size_t end = text.rfind('\n');
  text.resize(end == std::string::npos ? 0 : end + 1);  // a run may be writing its last line now
  for (size_t begin = 0; begin < text.size();) {
    size_t line_end = text.find('\n', begin);
    if (std::optional<Json> row = read_object(std::string_view(text).substr(begin, line_end - begin))) {
      news.rows.push_back(std::move(*row));
    }
    begin = line_end + 1;
  }
  news.offset = news.from + std::ssize(text);
  news.mark = mark_of(bytes_between(stream, std::max<int64_t>(news.offset - kMarkBytes, 0), news.offset));
  news.more = !text.empty() && news.offset < size;
  return news;
}

std::vector<RunRecord> RunFeed::read_known(const fs::path& folder) {
  std::string signature = is_folder_locked(folder) ? "locked;" : "";
  add_signature(folder, signature);
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    if (holds_run(at->path())) {  // a stage
      add_signature(at->path(), signature);
    }
  }
  auto known = known_.find(folder);
  if (known == known_.end() || known->second.signature != signature) {
    known = known_.insert_or_assign(folder, Known{signature, read_run_records(folder)}).first;
    for (RunRecord& record : known->second.records) {
      if (!record.plan.is_object()) {
        continue;  // as list_runs will say
      }
      // Megabytes; it is read when it is asked for.
      record.plan[kHasLayout] = record.plan.erase("layout") > 0;
    }
  }
  return known->second.records;
}

void RunFeed::refresh() {
  auto now = std::chrono::steady_clock::now();
  if (!refreshed_ || now - *refreshed_ > kFresh) {
    list_ = list_runs(folders_, [this](const fs::path& folder) { return read_known(folder); });
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
    run[kHasLayout] = record.plan.value(kHasLayout, false);
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
  RowNews news = read_rows(*folder / kMetricsFile, offset, mark);
  return Json({{"from", news.from},
               {"offset", news.offset},
               {"mark", news.mark},
               {"more", news.more},
               {"rows", std::move(news.rows)}});
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
    json["rows"][id] = read_rows(folder / kMetricsFile, 0, "", std::numeric_limits<int64_t>::max() / 2).rows;
    if (run[kHasLayout] == true) {
      json["plans"][id] = plan_for_page(folder);
    }
  }
  json["written"] = fmt::format("{:%Y-%m-%d %H:%M}", fmt::localtime(std::time(nullptr)));
  return json;
}

}  // namespace snug
