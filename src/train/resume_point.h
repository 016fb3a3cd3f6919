// Where a run can be taken up again.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include "recipe/recipe.h"
#include "train/run_progress.h"

namespace snug {

// What a run must have in common with the one that it goes on from.
struct RunIdentity {
  std::string train_data;  // fingerprints
  std::string eval_data;   // "" for none
  std::string model;

  bool operator==(const RunIdentity&) const = default;
};

struct ResumePoint {
  std::filesystem::path folder;
  Recipe recipe;  // by which it was trained so far
  RunIdentity identity;
  int64_t total_steps = 0;     // that it was to have
  int64_t eval_sequences = 0;  // whose tokens bound an evaluation's batch; 0: none
  RunProgress progress;
  std::string metrics;  // the rows of metrics.jsonl so far
};

}  // namespace snug
