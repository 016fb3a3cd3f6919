// The page of a plan.
#include "report/plan_page.h"

#include "plan/layout.h"
#include "report/pages.h"

namespace snug {
namespace {

// For each phase, the device's bytes in use at each op, all that is below included.
Json live_bytes_of(const Layout& layout) {
  Json phases = Json::array();
  int64_t below = layout.context_bytes + persistent_bytes(layout);
  for (const PhaseLayout& phase : layout.phases) {
    std::vector<int64_t> live = live_bytes(phase);
    for (int64_t& bytes : live) {
      bytes += below;
    }
    phases.push_back(live);
  }
  return phases;
}

}  // namespace

std::string plan_page(const std::string& title, const std::string& about,
                      const std::vector<NamedPlan>& plans) {
  Json all = Json::array();
  for (const NamedPlan& one : plans) {
    const Plan& plan = *one.plan;
    Layout layout = layout_of(plan);
    all.push_back({{"name", one.name},
                   {"limit_bytes", plan.limit_bytes ? Json(*plan.limit_bytes) : Json()},
                   {"peak_phase", plan.largest_phase().name()},
                   {"live_bytes", live_bytes_of(layout)},
                   {"layout", layout_to_json(layout)}});
  }
  return page_with(kPage_plan, {{"title", title}, {"about", about}, {"plans", std::move(all)}});
}

}  // namespace snug
