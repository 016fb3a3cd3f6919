// Names of the files that a run writes, in its folder and in its checkpoints.
#pragma once

#include <string>

namespace snug {

inline constexpr const char* kRecipeFile = "recipe.yml";
inline constexpr const char* kPlanFile = "plan.json";
inline constexpr const char* kMetricsFile = "metrics.jsonl";
inline constexpr const char* kSummaryFile = "summary.json";

// A manifest is a file that anybody can write: only names of files in the folder itself are believed.
inline bool is_plain_name(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos &&
         name.find('\0') == std::string::npos;
}

}  // namespace snug
