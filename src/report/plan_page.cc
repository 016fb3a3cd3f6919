// The page of a plan.
#include "report/plan_page.h"

#include "plan/layout.h"
#include "report/pages.h"

namespace snug {

std::string plan_page(const std::string& title, const std::string& about,
                      const std::vector<NamedPlan>& plans) {
  Json all = Json::array();
  for (const NamedPlan& one : plans) {
    const Plan& plan = *one.plan;
    all.push_back({{"name", one.name},
                   {"limit_bytes", plan.limit_bytes ? Json(*plan.limit_bytes) : Json()},
                   {"peak_phase", plan.largest_phase().name()},
                   {"layout", layout_to_json(layout_of(plan))}});
  }
  return page_with(kPage_plan, {{"title", title}, {"about", about}, {"plans", std::move(all)}});
}

}  // namespace snug
