// From its name to what it measures.
#include "recipe/eval_metric.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

namespace snug {
namespace {

constexpr std::string_view kPrefix = "eval_";

constexpr std::array<std::pair<std::string_view, EvalMeasure>, 3> kMeasures = {{
    {"loss", EvalMeasure::loss},
    {"token_accuracy", EvalMeasure::token_accuracy},
    {"exact_match", EvalMeasure::exact_match},
}};

// "loss", or "SET_loss".
std::optional<EvalMetric> parse_metric(std::string_view name) {
  if (name.starts_with(kPrefix)) {
    name.remove_prefix(kPrefix.size());
  }
  for (const auto& [measure_name, measure] : kMeasures) {
    if (name == measure_name) {
      return EvalMetric{measure, ""};
    }
    std::string ending = fmt::format("_{}", measure_name);
    if (name.ends_with(ending) && name != ending) {
      return EvalMetric{measure, std::string(name.substr(0, name.size() - ending.size()))};
    }
  }
  return std::nullopt;
}

}  // namespace

EvalMetric best_metric(const TrainingSection& training) {
  return parse_metric(training.metric_for_best_model).value_or(EvalMetric{});
}

bool greater_is_better(const TrainingSection& training) {
  return training.greater_is_better.value_or(best_metric(training).measure != EvalMeasure::loss);
}

bool has_validation_prompts(const TrainingSection& training) {
  return !training.validation_prompts.empty() || !training.validation_prompts_file.empty();
}

int64_t most_new_tokens(const TrainingSection& training) {
  int64_t for_people = has_validation_prompts(training) ? training.validation_max_new_tokens : 0;
  return std::max(training.eval_max_new_tokens, for_people);
}

std::string find_metric_problem(const Recipe& recipe) {
  const std::string& asked = recipe.training.metric_for_best_model;
  const std::vector<std::string>& sets = recipe.data.eval_sets;
  bool generates = recipe.training.eval_max_new_tokens > 0;
  std::optional<EvalMetric> metric = parse_metric(asked);
  if (metric && metric->measure == EvalMeasure::exact_match && !generates) {
    return fmt::format(
        "training.metric_for_best_model is {}, but evaluations generate no answers: set "
        "training.eval_max_new_tokens to how many tokens one may have",
        asked);
  }
  if (metric && (metric->set.empty() || std::find(sets.begin(), sets.end(), metric->set) != sets.end())) {
    return "";
  }
  std::vector<std::string> known;
  auto add_known = [&](const std::string& prefix) {
    for (const auto& [name, measure] : kMeasures) {
      if (measure != EvalMeasure::exact_match || generates) {
        known.push_back(fmt::format("{}{}", prefix, name));
      }
    }
  };
  add_known(std::string(kPrefix));
  for (const std::string& set : std::set<std::string>(sets.begin(), sets.end())) {
    add_known(fmt::format("{}{}_", kPrefix, set));
  }
  return fmt::format("training.metric_for_best_model is {}, which no evaluation of this recipe has: {}",
                     asked, fmt::join(known, ", "));
}

}  // namespace snug
