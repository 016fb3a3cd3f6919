// Two recipes or runs side by side: what differs, and what that does to the memory.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "plan/plan_figures.h"
#include "plan/speed.h"
#include "recipe/recipe.h"
#include "train/run_record.h"

namespace snug {

// A recipe with its plan; of a recipe with stages, one of them.
struct ComparedPlan {
  Recipe asked;
  Recipe fitted;  // with what was chosen where it was left open
  PlanFigures plan;
  SpeedEstimate speed;  // not known without a card's rates
  std::optional<RunRecord> run = std::nullopt;
};

struct Compared {
  std::string path;  // as it was given
  std::vector<ComparedPlan> stages;

  // The stage that takes the most.
  const PlanFigures& largest() const;
};

struct SettingDifference {
  std::string key;  // as recipes have it
  Json a;           // null: not set, or not there
  Json b;
};

// Of all keys, defaults included, in the order of the reference. Paths that name the same file are equal;
// where results are written, and what is chosen to fit, are no settings of the experiment.
std::vector<SettingDifference> different_settings(const Recipe& a, const Recipe& b);
// Of what was chosen, or written by hand, to fit.
std::vector<SettingDifference> different_fitting(const Recipe& a, const Recipe& b);

// Bytes that B takes more than A, by role at the peak; the largest difference first.
struct RoleDifference {
  std::string role;
  int64_t bytes = 0;
  // The buffers that make most of it, where both plans are known to the buffer.
  std::vector<std::pair<std::string, int64_t>> buffers;
};
std::vector<RoleDifference> different_roles(const PlanFigures& a, const PlanFigures& b);

// Whether no setting, no fitting and no byte differs.
bool is_same(const Compared& a, const Compared& b);

// One line: which of them fits, and what makes the difference.
std::string verdict(const Compared& a, const Compared& b);

}  // namespace snug
