// A recipe, all stages of it, made to fit: what is changed, from what to what, why, and what each change
// saves and costs.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "backend/device.h"
#include "compile/batch_limits.h"
#include "fit/alternatives.h"
#include "fit/remedies.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "recipe/recipe.h"

namespace snug {

struct FitChange {
  std::string key;
  std::string before;  // as recipes write it
  std::string after;
  Sameness sameness = Sameness::bits;
  std::string_view reason;
  // With this one made behind those before it; together they are what the run saves and costs.
  int64_t saved_bytes = 0;
  double slower = 0;  // in steps as they were: 0.1 is a tenth
};

struct FittedStage {
  Recipe before;  // as it was asked for
  int64_t before_bytes =
      0;  // of that, with the largest micro-batches and everything kept if it leaves them open
  Recipe after;
  Plan plan;
  double slower = 0;
  std::vector<FitChange> changes;
  std::optional<Alternatives> offers;  // where it does not fit: what would
};

struct FittedRun {
  std::vector<FittedStage> stages;
  std::vector<std::string> settings;  // "--set" arguments that make it of what was asked for

  bool fits() const;
};

struct FitRequest {
  // The recipes of all stages, with these "--set" arguments behind those that were asked for.
  std::function<std::vector<Recipe>(const std::vector<std::string>& settings)> read;
  // What their data's batches are limited to, a stage each.
  std::function<std::vector<LimitsOf>(const std::vector<Recipe>& stages)> limits;
  // Opt-ins and changes to the experiment that may be made (remedies.h).
  std::set<std::string, std::less<>> allowed;
};

// What is written stays where it fits. Where it does not, the fastest plan of the same experiment is taken;
// where there is none, the smallest change among those that are allowed.
FittedRun fit_run(const FitRequest& request, const ModelSpec& spec, const Device& device);

// What was found for one of these stages, as settings of the whole recipe.
void name_stage(Alternatives& found, const std::vector<Recipe>& stages, size_t stage);

}  // namespace snug
