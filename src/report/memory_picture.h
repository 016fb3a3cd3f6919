// Memory over the ops of a phase, drawn with characters.
#pragma once

#include <string>

#include "plan/plan.h"
#include "report/terminal.h"

namespace snug {

// The phase that needs most: what persists in every other dot, what lives for some ops full, with the
// driver's context below. "" for a phase without ops, and where there is no room for a picture.
std::string memory_picture(const Plan& plan, const Style& style);

}  // namespace snug
