// Metrics as JSON.
#include "train/metrics_rows.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

namespace snug {
namespace {

// Of a set or of all of them.
template <typename Metrics>
void add_measures(Json& json, const std::string& prefix, const Metrics& metrics) {
  json[prefix + "loss"] = metrics.loss;
  json[prefix + "perplexity"] = std::exp(metrics.loss);
  json[prefix + "token_accuracy"] = metrics.token_accuracy();
  json[prefix + "targets"] = metrics.targets;
  if (metrics.answers > 0) {
    json[prefix + "exact_match"] = metrics.exact_match();
    json[prefix + "answers"] = metrics.answers;
  }
}

}  // namespace

Json step_row(const StepMetrics& metrics, int64_t tokens_so_far) {
  return {{"step", metrics.step},
          {"epoch", metrics.epoch},
          {"loss", metrics.loss},
          {"grad_norm", metrics.gradient_norm},
          {"learning_rate", metrics.learning_rate},
          {"skipped_updates", metrics.skipped_updates},
          {"tokens", tokens_so_far},
          {"tokens_per_second", static_cast<double>(metrics.tokens) / std::max(metrics.seconds, 1e-9)}};
}

Json evaluation_row(const EvaluationMetrics& metrics) {
  Json json = {{"step", metrics.step}};
  add_measures(json, "eval_", metrics);
  for (const SetMetrics& set : metrics.sets) {
    add_measures(json, fmt::format("eval_{}_", set.name), set);
  }
  return json;
}

}  // namespace snug
