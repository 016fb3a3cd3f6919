// Stages for people: what each takes, and what was learned and forgotten from one to the next.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"
#include "recipe/recipe.h"
#include "report/terminal.h"
#include "train/forgetting.h"

namespace snug {

// A line a stage, and a column a stage: each at its own peak, with the highest of all. Plans are of `stages`.
std::string stages_plan_report(const std::vector<Plan>& plans, const std::vector<Recipe>& stages,
                               const std::string& device, const Style& style);

// Rows: evaluation sets; columns: before its stage, after each stage, and the differences.
std::string forgetting_report(const Forgetting& forgetting, const Style& style);

// "stage 2 of 3: security, on top of the adapters before"
std::string stage_heading(const Recipe& stage, size_t index, size_t count, const Style& style);

}  // namespace snug
