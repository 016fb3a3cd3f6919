// What was changed to make a recipe fit, for people and as JSON.
#pragma once

#include <string>

#include "fit/fitted_run.h"
#include "io/json.h"
#include "report/terminal.h"

namespace snug {

// A table for each stage: key, before, after, what it saves and costs, and why. `device` is what its first
// line calls the device.
std::string fit_report(const FittedRun& run, const std::string& device, const Style& style);

Json fit_json(const FittedRun& run);

}  // namespace snug
