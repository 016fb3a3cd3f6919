// From its name to what it measures.
#include "recipe/eval_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

namespace snug {
namespace {

constexpr std::string_view kBefore = "eval_";
constexpr std::string_view kAfter = "_loss";

std::string_view without_prefix(const std::string& metric) {
  std::string_view name = metric;
  return name.starts_with(kBefore) ? name.substr(kBefore.size()) : name;
}

}  // namespace

std::string set_of_best_metric(const TrainingSection& training) {
  std::string_view name = without_prefix(training.metric_for_best_model);
  return name.ends_with(kAfter) ? std::string(name.substr(0, name.size() - kAfter.size())) : "";
}

std::string find_metric_problem(const Recipe& recipe) {
  const std::string& metric = recipe.training.metric_for_best_model;
  if (without_prefix(metric) == "loss") {
    return "";
  }
  const std::vector<std::string>& sets = recipe.data.eval_sets;
  std::string set = set_of_best_metric(recipe.training);
  if (!set.empty() && std::find(sets.begin(), sets.end(), set) != sets.end()) {
    return "";
  }
  std::string known = "eval_loss";
  for (const std::string& name : std::set<std::string>(sets.begin(), sets.end())) {
    known += fmt::format(", {}{}{}", kBefore, name, kAfter);
  }
  return fmt::format("training.metric_for_best_model is {}, which no evaluation of this recipe has: {}",
                     metric, known);
}

}  // namespace snug
