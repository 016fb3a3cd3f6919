// The plan as JSON, for machines and for keeping beside a run. Keys stay stable.
#pragma once

#include "io/json.h"
#include "plan/plan.h"

namespace snug {

Json plan_to_json(const Plan& plan);

// plan.json of a run: the same, and as "layout" every op and every buffer of every phase (plan/layout.h).
std::string plan_file(const Plan& plan);

}  // namespace snug
