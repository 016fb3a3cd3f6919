// A plan a stage.
#include "cli/stage_plans.h"

#include <fmt/format.h>

#include <algorithm>

#include "fit/choice.h"
#include "fit/fitted_run.h"
#include "plan/plan_json.h"
#include "plan/saving.h"
#include "recipe/keys.h"
#include "report/plan_report.h"
#include "report/stages_report.h"

namespace snug {

StagePlans::StagePlans(const std::vector<Recipe>& stages, const ModelSpec& spec, const Device& device,
                       std::vector<LimitsOf> limits)
    : stages_(stages), spec_(spec), device_(device), limits_(std::move(limits)) {
  for (size_t i = 0; i < stages_.size(); ++i) {
    FittedRecipe fitted = choose_plan(stages_[i], spec, device, limits_[i]);
    chosen_.push_back(std::move(fitted.recipe));
    plans_.push_back(std::move(fitted.plan));
  }
  share_arenas(plans_, device_);
}

bool StagePlans::fit(size_t first) const {
  return std::all_of(plans_.begin() + static_cast<std::ptrdiff_t>(first), plans_.end(),
                     [](const Plan& plan) { return plan.fits(); });
}

void StagePlans::replace(size_t stage, const Recipe& recipe, const Plan& plan) {
  stages_[stage] = recipe;
  chosen_[stage] = recipe;
  plans_[stage] = plan;
  share_arenas(plans_, device_);
}

std::string StagePlans::report(const std::string& device, const Style& style, size_t first) const {
  auto from = static_cast<std::ptrdiff_t>(first);
  std::vector<Plan> plans(plans_.begin() + from, plans_.end());
  std::vector<Recipe> stages(chosen_.begin() + from, chosen_.end());
  return plans.empty() ? "" : stages_plan_report(plans, stages, device, style);
}

Alternatives StagePlans::alternatives_of(size_t stage) const {
  Alternatives found = find_alternatives(stages_[stage], spec_, device_, limits_[stage]);
  name_stage(found, stages_, stage);
  return found;
}

std::string StagePlans::misfit_report(const Style& style) const {
  std::string text;
  for (size_t i = 0; i < plans_.size(); ++i) {
    if (!plans_[i].fits()) {
      text += fmt::format("\n  {} {}", style.bold("stage"), stages_[i].stage.name) +
              does_not_fit_report(plans_[i], alternatives_of(i), style);
    }
  }
  return text;
}

Json StagePlans::to_json() const {
  const Plan& highest = *std::max_element(plans_.begin(), plans_.end(), [](const Plan& a, const Plan& b) {
    return a.peak_bytes() < b.peak_bytes();
  });
  Json stages = Json::array();
  int64_t device_bytes = 0;
  for (size_t i = 0; i < plans_.size(); ++i) {
    Json one = plan_to_json(plans_[i]);
    one["stage"] = stages_[i].stage.name;
    one["chosen"] = choice_json(chosen_[i]);
    if (std::string warning = positions_warning(stages_[i], spec_); !warning.empty()) {
      one["warnings"] = {warning};
    }
    if (!plans_[i].fits()) {
      one.update(misfit_json(alternatives_of(i)));
    }
    device_bytes = std::max(device_bytes, plans_[i].device_bytes());
    stages.push_back(std::move(one));
  }
  return {{"fits", highest.limit_bytes ? Json(fit()) : Json()},
          {"peak_bytes", highest.peak_bytes()},
          {"peak_stage", stages_[static_cast<size_t>(&highest - plans_.data())].stage.name},
          {"limit_bytes", highest.limit_bytes ? Json(*highest.limit_bytes) : Json()},
          {"device_bytes", device_bytes},
          {"device", device_.label()},
          {"stages", stages}};
}

Json choice_json(const Recipe& recipe) {
  Json chosen;
  for (const char* key : {"memory.micro_batch_tokens", "memory.recompute", "memory.loss_chunk_tokens"}) {
    chosen[key] = find_recipe_key(key)->print(recipe);
  }
  return chosen;
}

namespace {

Json alternatives_json(const std::vector<Alternative>& alternatives) {
  Json list = Json::array();
  for (const Alternative& alternative : alternatives) {
    list.push_back({{"settings", alternative.settings},
                    {"peak_bytes", alternative.peak_bytes},
                    {"step_time", alternative.slower ? Json(1 + *alternative.slower) : Json()}});
    if (!alternative.changes.empty()) {
      list.back()["changes"] = alternative.changes;
    }
  }
  return list;
}

}  // namespace

Json misfit_json(const Alternatives& found) {
  Json report = {{"alternatives", alternatives_json(found.same)},
                 {"opt_in", alternatives_json(found.opt_in)},
                 {"experiment", alternatives_json(found.experiment)}};
  if (found.same.empty()) {
    report["least_bytes"] = found.least_bytes;
    report["card"] = found.card != nullptr ? Json(found.card->name) : Json();
  }
  return report;
}

}  // namespace snug
