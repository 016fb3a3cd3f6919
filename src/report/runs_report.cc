// Finding runs, and the tables of them.
#include "report/runs_report.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <iomanip>
#include <map>
#include <sstream>

#include "base/bytes.h"
#include "base/error.h"
#include "io/printable.h"
#include "io/shell_word.h"
#include "recipe/write.h"
#include "report/difference.h"
#include "report/layout.h"
#include "train/run_files.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr const char* kNothing = "·";
constexpr size_t kShownName = 28;
constexpr size_t kShownValue = 30;
constexpr size_t kReadValue = 4096;  // bytes, of which what differs is shown

fs::path whole(const fs::path& folder) {
  fs::path path = fs::absolute(folder).lexically_normal();
  return path.has_filename() ? path : path.parent_path();
}

// The folder that all of them lie in.
fs::path common_parent(const std::vector<fs::path>& folders) {
  fs::path common = folders.empty() ? fs::path() : folders.front().parent_path();
  for (const fs::path& folder : folders) {
    while (common.has_relative_path() && folder.lexically_relative(common).begin()->string() == "..") {
      common = common.parent_path();
    }
  }
  return common;
}

// The path as a person here would write it.
fs::path from_here(const fs::path& path) {
  fs::path relative = path.lexically_proximate(fs::current_path());
  return relative.empty() || *relative.begin() == ".." ? path : relative;
}

std::string loss_cell(const std::optional<double>& loss) {
  return loss ? fmt::format("{:.4f}", *loss) : kNothing;
}

std::string steps_cell(const RunRecord& run) {
  std::string all = run.total_steps ? "/" + format_count(*run.total_steps) : "";
  return format_count(run.figures.steps) + all;
}

// "322.96M"
std::string short_count(int64_t count) {
  for (auto [unit, size] : {std::pair("B", 1e9), std::pair("M", 1e6), std::pair("k", 1e3)}) {
    if (static_cast<double>(count) >= size) {
      return fmt::format("{:.2f}{}", static_cast<double>(count) / size, unit);
    }
  }
  return fmt::format("{}", count);
}

// The manifest's time where the reader is.
std::string local_time(const std::string& started) {
  std::tm utc{};
  std::istringstream text(started);
  text >> std::get_time(&utc, "%Y-%m-%dT%H:%M:%SZ");
  return text.fail() ? kNothing : fmt::format("{:%m-%d %H:%M}", fmt::localtime(timegm(&utc)));
}

std::string state_cell(RunOutcome outcome, const Style& style) {
  std::string_view name = name_of(outcome);
  switch (outcome) {
    case RunOutcome::running:
      return style.accent(name);
    case RunOutcome::finished:
      return style.good(name);
    case RunOutcome::stopped:
      return std::string(name);
    case RunOutcome::failed:
      return style.bad(name);
  }
  return "";
}

std::string shown_name(const ListedRun& run) {
  return cut_to_width(printable(run.name), kShownName);
}

std::string runs_text(const std::vector<ListedRun>& runs, const Style& style) {
  Table table{.header = {"run", "state", "steps", "first loss", "last loss", "best eval", "tokens/s",
                         "trained", "peak", "started"},
              .rows = {},
              .rules_before = {}};
  for (const ListedRun& run : runs) {
    const RunFigures& figures = run.record.figures;
    table.rows.push_back(
        {shown_name(run), state_cell(run.record.outcome, style), steps_cell(run.record),
         loss_cell(figures.first_loss), loss_cell(figures.last_loss), loss_cell(figures.best_eval_loss),
         figures.tokens_per_second ? format_count(static_cast<int64_t>(*figures.tokens_per_second))
                                   : kNothing,
         short_count(run.record.plan.trainable_parameters), format_bytes(run.record.plan.peak_bytes),
         local_time(run.record.started)});
  }
  return table.to_text(style);
}

// What can be done about those that did not come to their end.
std::string notes_text(const RunList& list, const Style& style) {
  std::string text;
  for (const ListedRun& run : list.runs) {
    if (run.record.outcome == RunOutcome::stopped) {
      bool is_stage = !run.record.recipe.stage.name.empty();
      fs::path root = is_stage ? run.record.folder.parent_path() : run.record.folder;
      text += fmt::format("  {}  can be resumed: snug train {} --resume\n", shown_name(run),
                          shell_word(printable(from_here(root / kRecipeFile).string(), 400)));
    } else if (run.record.outcome == RunOutcome::failed) {
      text += fmt::format("  {}  {}\n", shown_name(run), printable(run.record.failure, 400));
    }
  }
  for (const UnreadableRun& run : list.unreadable) {
    text += fmt::format("  {}  {}\n", style.bad("cannot be read:"), printable(run.problem, 400));
  }
  return text.empty() ? "" : "\n" + fit_lines(text, style);
}

std::string settings_text(const std::vector<ListedRun>& runs, const Style& style) {
  if (runs.size() < 2) {
    return "";
  }
  Table table{.header = {"setting"}, .rows = {}, .rules_before = {}};
  for (const ListedRun& run : runs) {
    table.header.push_back(shown_name(run));
  }
  for (const SettingOfRuns& setting : different_settings(runs)) {
    std::vector<std::string> row;
    for (const Json& value : setting.values) {
      row.push_back(printable(yaml_value(value), kReadValue));
    }
    row = cut_where_they_differ(std::move(row), kShownValue);
    row.insert(row.begin(), setting.key);
    table.rows.push_back(std::move(row));
  }
  return table.rows.empty() ? "\n  no setting differs\n" : "\n" + table.to_text(style);
}

Json number_json(const std::optional<double>& value) {
  return value ? Json(*value) : Json();
}

}  // namespace

RunList list_runs(const std::vector<fs::path>& folders, RunReader& reader) {
  RunList list;
  std::vector<fs::path> found;
  for (const fs::path& folder : folders) {
    if (!fs::is_directory(folder)) {
      throw bad_input(fmt::format("{}: no such folder", in_quotes(folder.string())));
    }
    FoundRuns here = find_runs(whole(folder));
    for (const fs::path& run : here.folders) {
      if (std::find(found.begin(), found.end(), run) == found.end()) {
        found.push_back(run);
      }
    }
    for (const FoundRuns::Closed& closed : here.closed) {
      list.unreadable.push_back(
          {.folder = closed.folder,
           .problem = fmt::format("{}: {}", in_quotes(closed.folder.string()), closed.reason)});
    }
  }
  fs::path common = common_parent(found);
  for (const fs::path& folder : found) {
    try {
      for (RunRecord& record : reader.read(folder)) {
        std::string name = record.folder.lexically_relative(common).string();
        list.runs.push_back({.name = std::move(name), .record = std::move(record)});
      }
    } catch (const Error& error) {
      list.unreadable.push_back({.folder = folder, .problem = error.what()});
    }
  }
  std::stable_sort(list.runs.begin(), list.runs.end(), [](const ListedRun& a, const ListedRun& b) {
    return a.record.started > b.record.started;
  });
  return list;
}

std::vector<SettingOfRuns> different_settings(const std::vector<ListedRun>& runs) {
  std::vector<SettingOfRuns> found;
  auto setting = [&](const SettingDifference& one) -> SettingOfRuns& {
    auto place = std::find_if(found.begin(), found.end(),
                              [&](const SettingOfRuns& known) { return known.key == one.key; });
    if (place == found.end()) {
      found.push_back({.key = one.key, .values = std::vector<Json>(runs.size(), one.a)});
      return found.back();
    }
    return *place;
  };
  for (size_t i = 1; i < runs.size(); ++i) {
    for (const SettingDifference& one :
         different_settings(runs.front().record.recipe, runs[i].record.recipe)) {
      setting(one).values[i] = one.b;
    }
  }
  return found;
}

std::string runs_report(const RunList& list, const Style& style) {
  std::string text = list.runs.empty() ? "" : runs_text(list.runs, style);
  return text + notes_text(list, style) + settings_text(list.runs, style);
}

Json run_json(const ListedRun& run) {
  const RunRecord& record = run.record;
  const RunFigures& figures = record.figures;
  const PlanFigures& plan = record.plan;
  return {{"name", run.name},
          {"folder", record.folder.string()},
          {"state", name_of(record.outcome)},
          {"can_be_resumed", record.outcome == RunOutcome::stopped},
          {"failure", record.failure.empty() ? Json() : Json(record.failure)},
          {"started", record.started},
          {"last_time", number_json(figures.last_time)},
          {"steps", figures.steps},
          {"total_steps", record.total_steps ? Json(*record.total_steps) : Json()},
          {"first_loss", number_json(figures.first_loss)},
          {"last_loss", number_json(figures.last_loss)},
          {"eval_loss", number_json(figures.eval_loss)},
          {"best_eval_loss", number_json(figures.best_eval_loss)},
          {"tokens_per_second", number_json(figures.tokens_per_second)},
          {"parameters", plan.parameters},
          {"trainable_parameters", plan.trainable_parameters},
          {"peak_bytes", plan.peak_bytes},
          {"limit_bytes", plan.limit_bytes ? Json(*plan.limit_bytes) : Json()},
          {"origin", origin_to_json(record.origin)}};
}

Json runs_json(const RunList& list) {
  Json runs = Json::array();
  for (const ListedRun& run : list.runs) {
    runs.push_back(run_json(run));
  }
  Json settings = Json::array();
  for (const SettingOfRuns& one : different_settings(list.runs)) {
    settings.push_back({{"key", one.key}, {"values", one.values}});
  }
  Json unreadable = Json::array();
  for (const UnreadableRun& run : list.unreadable) {
    unreadable.push_back({{"folder", run.folder.string()}, {"problem", run.problem}});
  }
  return {{"runs", runs}, {"settings", settings}, {"unreadable", unreadable}};
}

}  // namespace snug
