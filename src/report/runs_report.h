// Runs side by side: how each went, and which settings differ between them.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "io/json.h"
#include "report/terminal.h"
#include "train/run_record.h"

namespace snug {

struct ListedRun {
  std::string name;  // the folder without what is common to all, and the stage
  RunRecord record;
};

struct UnreadableRun {
  std::filesystem::path folder;
  std::string problem;
};

struct RunList {
  std::vector<ListedRun> runs;  // the newest first
  std::vector<UnreadableRun> unreadable;
};

// The runs of these folders and of those below them. Throws bad_input for a folder that is not there.
RunList list_runs(const std::vector<std::filesystem::path>& folders, RunReader& reader);

// A setting that is not the same in all runs, with its value in each.
struct SettingOfRuns {
  std::string key;
  std::vector<Json> values;
};
std::vector<SettingOfRuns> different_settings(const std::vector<ListedRun>& runs);

std::string runs_report(const RunList& list, const Style& style);
Json run_json(const ListedRun& run);
Json runs_json(const RunList& list);

}  // namespace snug
