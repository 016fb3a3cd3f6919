// A plan as one web page that needs nothing else: which buffers live where and when.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "io/json.h"
#include "plan/layout.h"
#include "plan/plan.h"

namespace snug {

struct NamedPlan {
  std::string name;  // of the stage; "" where there is one plan only
  const Plan* plan;
  std::string about = {};  // of the run by it
};

// What the picture of one plan is drawn from.
Json picture_data(const std::string& name, const std::optional<int64_t>& limit_bytes,
                  const std::string& peak_phase, const Layout& layout);

// `about` stands below the title.
std::string plan_page(const std::string& title, const std::string& about,
                      const std::vector<NamedPlan>& plans);

}  // namespace snug
