// The plans of all stages of a recipe, and what is said of them.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "fit/alternatives.h"
#include "io/json.h"
#include "plan/plan.h"
#include "report/terminal.h"

namespace snug {

class StagePlans {
 public:
  // `limits` has one for each stage; all must outlive it.
  StagePlans(const std::vector<Recipe>& stages, const ModelSpec& spec, const Device& device,
             std::vector<LimitsOf> limits);

  // Whether all from that stage on do.
  bool fit(size_t first = 0) const;
  void replace(size_t stage, const Recipe& recipe, const Plan& plan);
  const LimitsOf& limits(size_t stage) const { return limits_[stage]; }
  const std::vector<Plan>& plans() const { return plans_; }
  // With what was chosen where the recipes left it open.
  const std::vector<Recipe>& chosen() const { return chosen_; }
  std::vector<Plan> take() { return std::move(plans_); }

  // Of the stages from `first` on: those before it are finished, and take nothing any more.
  std::string report(const std::string& device, const Style& style, size_t first = 0) const;
  // Of each stage that does not fit: what would, as settings of that stage.
  std::string misfit_report(const Style& style) const;
  Json to_json() const;

 private:
  Alternatives alternatives_of(size_t stage) const;

  std::vector<Recipe> stages_;  // as they are asked for
  std::vector<Recipe> chosen_;
  const ModelSpec& spec_;
  const Device& device_;
  std::vector<LimitsOf> limits_;
  std::vector<Plan> plans_;
};

// What a recipe has in place of what was left open.
Json choice_json(const Recipe& recipe);
// What would fit in place of a plan that does not.
Json misfit_json(const Alternatives& found);

}  // namespace snug
