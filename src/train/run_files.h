// Names of the files that a run writes, in its folder and in its checkpoints.
#pragma once

#include <string>
#include <string_view>

namespace snug {

inline constexpr const char* kManifest = "manifest.json";
inline constexpr const char* kRecipeFile = "recipe.yml";
inline constexpr const char* kPlanFile = "plan.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kLogFile = "run.log";
// The name TensorBoard looks for; the time and the machine follow.
inline constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";
inline bool is_event_file_name(std::string_view name) {
  return name.starts_with(kEventFilePrefix);
}
inline constexpr const char* kSummaryFile = "summary.json";
inline constexpr const char* kStagesFile = "stages.json";

// Folders in that of a stage: its own adapter where others lie below it, and the weights that it begins with
// where adapters were merged into them.
inline constexpr const char* kOwnAdapterFolder = "own";
inline constexpr const char* kMergedFolder = "base";

// A manifest is a file that anybody can write: only names of files in the folder itself are believed.
inline bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

// The same, or one in a folder that stands in it.
inline bool is_inner_name(const std::string& name) {
  size_t slash = name.find('/');
  return slash == std::string::npos
             ? is_plain_name(name)
             : is_plain_name(name.substr(0, slash)) && is_plain_name(name.substr(slash + 1));
}

}  // namespace snug
