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

void add_card(const CardHealth& card, Json& row) {
  if (card.celsius) {
    row["card_celsius"] = *card.celsius;
  }
  if (card.watts) {
    row["card_watts"] = *card.watts;
  }
  row["card_slowed_down"] = card.is_slowed_by_heat || card.is_slowed_by_power_brake ? 1 : 0;
}

Json sample_row(const Sample& sample) {
  Json json = {{"step", sample.step}, {"sample", sample.number}, {"prompt", sample.prompt}};
  if (!sample.reference.empty()) {
    json["reference"] = sample.reference;
  }
  json["text"] = sample.text;
  return json;
}

}  // namespace snug
