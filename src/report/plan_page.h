// A plan as one web page that needs nothing else: which buffers live where and when.
#pragma once

#include <string>
#include <vector>

#include "plan/plan.h"

namespace snug {

struct NamedPlan {
  std::string name;  // of the stage; "" where there is one plan only
  const Plan* plan;
};

// `about` stands below the title.
std::string plan_page(const std::string& title, const std::string& about,
                      const std::vector<NamedPlan>& plans);

}  // namespace snug
