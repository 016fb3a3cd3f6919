// A run that goes on where the split of its checkpoint has no room: on a smaller card, or under a lower
// limit.
#pragma once

#include <optional>
#include <string>

#include "compile/batch_limits.h"
#include "plan/plan.h"
#include "train/resume_point.h"

namespace snug {

struct OtherSplit {
  Recipe recipe;
  Plan plan;
  std::string warning;  // what is split otherwise, and what follows
};

// `recipe` is the one to go on with (recipe_to_go_on), whose plan does not fit: the same experiment as it
// does fit, fastest first; nothing if it never does.
std::optional<OtherSplit> find_other_split(const Recipe& recipe, const ModelSpec& spec, const Device& device,
                                           const LimitsOf& limits);

}  // namespace snug
