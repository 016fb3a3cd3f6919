// The plan for people: what goes where, in which phase, and where the peak is.
#pragma once

#include <string>
#include <vector>

#include "fit/alternatives.h"
#include "fit/choice.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "plan/speed.h"
#include "recipe/recipe.h"
#include "report/terminal.h"

namespace snug {

// `device` is what its first line calls the device.
std::string plan_report(const Plan& plan, const Recipe& recipe, const ModelSpec& spec,
                        const std::string& device, const Style& style);

// What was chosen where the recipe left it open, and why; "" if it left nothing open.
std::string choice_report(const FittedRecipe& fitted, const Style& style);

// The limit, and whether the plan keeps to it.
std::string limit_line(const Plan& plan, const Style& style);

// What to expect, on one line; "" if the device's rates are not known.
// `origin`: of the rates that it is reckoned by (Device::rates_origin).
std::string speed_report(const SpeedEstimate& estimate, const RatesOrigin& origin, const Style& style);

// "does not fit" with by how much, and the nearest plans that do.
std::string does_not_fit_report(const Plan& plan, const Alternatives& alternatives, const Style& style);

}  // namespace snug
