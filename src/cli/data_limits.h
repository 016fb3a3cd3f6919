// What the data of a recipe bounds its batches to, for commands that plan.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "compile/batch_limits.h"
#include "plan/run_forecast.h"
#include "recipe/recipe.h"

namespace snug {

// What a plan is made by beside its recipe.
struct PlannedData {
  LimitsOf limits;  // empty where the data is not asked
  RunLength length;
};

// Where the data is not asked, an epoch is taken to have `rows`, if anybody says how many.
struct DataQuestion {
  bool with_data = false;
  std::optional<int64_t> rows = std::nullopt;
};

// Of all stages, or of a recipe without any. Each stage is evaluated with the sets of those before it, too.
std::vector<PlannedData> planned_data(const std::vector<Recipe>& stages, const DataQuestion& question);
std::vector<LimitsOf> limits_of(const std::vector<PlannedData>& data);

// "cuts 2.0% of the tokens, in 5.0% of the rows", of a setting such as data.max_length=512; "" if the setting
// cuts nothing from anything, or the data is not there.
std::string describe_cut(const Recipe& recipe, const std::string& setting);

}  // namespace snug
