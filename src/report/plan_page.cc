// The page of a plan.
#include "report/plan_page.h"

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

Json picture_data(const std::string& name, const std::optional<int64_t>& limit_bytes,
                  const std::string& peak_phase, const Layout& layout) {
  return {{"name", name},
          {"limit_bytes", limit_bytes ? Json(*limit_bytes) : Json()},
          {"peak_phase", peak_phase},
          {"live_bytes", live_bytes_of(layout)},
          {"layout", layout_to_json(layout)}};
}

std::string plan_page(const std::string& title, const std::string& about,
                      const std::vector<NamedPlan>& plans) {
  Json all = Json::array();
  for (const NamedPlan& one : plans) {
    const Plan& plan = *one.plan;
    all.push_back(picture_data(one.name, plan.limit_bytes, plan.largest_phase().name(), layout_of(plan)));
    all.back()["about"] = one.about;
  }
  return page_with(kPage_plan, {{"title", title}, {"about", about}, {"plans", std::move(all)}});
}

}  // namespace snug
