// To JSON and back.
#include "train/run_progress.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "base/error.h"

namespace snug {
namespace {

// Of a set or of all of them.
template <typename Metrics>
Json measures_to_json(const Metrics& metrics) {
  return {{"loss", metrics.loss},
          {"targets", metrics.targets},
          {"hits", metrics.hits},
          {"answers", metrics.answers},
          {"exact_answers", metrics.exact_answers}};
}

template <typename Metrics>
void measures_from_json(const Json& json, Metrics& metrics) {
  json.at("loss").get_to(metrics.loss);
  json.at("targets").get_to(metrics.targets);
  // Checkpoints of earlier versions have no more.
  metrics.hits = json.value("hits", int64_t{0});
  metrics.answers = json.value("answers", int64_t{0});
  metrics.exact_answers = json.value("exact_answers", int64_t{0});
}

Json watch_to_json(const WatchMemory& watch) {
  return {{"skipped_in_a_row", watch.skipped_in_a_row},
          {"skipped_share", watch.skipped_share},
          {"updates", watch.updates},
          {"scale_doublings", watch.clock.doublings},
          {"good_steps", watch.clock.good_steps},
          {"collapsed_in_a_row", watch.collapsed_in_a_row},
          {"smoothed", watch.smoothed},
          {"lowest_smoothed", watch.lowest_smoothed},
          {"seen", watch.seen},
          {"high_in_a_row", watch.high_in_a_row},
          {"zero_in_a_row", watch.zero_in_a_row},
          {"adapters_seen", watch.adapters_seen},
          {"last_evaluation", watch.last_evaluation ? Json(*watch.last_evaluation) : Json()},
          {"evaluations_rising", watch.evaluations_rising},
          {"told", watch.told}};
}

// Checkpoints of earlier versions have less: that starts anew.
WatchMemory watch_from_json(const Json& json) {
  WatchMemory watch;
  json.at("skipped_in_a_row").get_to(watch.skipped_in_a_row);
  json.at("smoothed").get_to(watch.smoothed);
  json.at("lowest_smoothed").get_to(watch.lowest_smoothed);
  json.at("seen").get_to(watch.seen);
  watch.skipped_share = json.value("skipped_share", 0.0);
  watch.updates = json.value("updates", int64_t{0});
  // The scale is from 1 to 2^24.
  watch.clock.doublings = std::clamp<int64_t>(json.value("scale_doublings", int64_t{0}), -16, 8);
  watch.clock.good_steps = json.value("good_steps", int64_t{0});
  watch.collapsed_in_a_row = json.value("collapsed_in_a_row", int64_t{0});
  watch.high_in_a_row = json.value("high_in_a_row", int64_t{0});
  watch.zero_in_a_row = json.value("zero_in_a_row", int64_t{0});
  watch.adapters_seen = json.value("adapters_seen", true);
  if (json.contains("last_evaluation") && !json.at("last_evaluation").is_null()) {
    watch.last_evaluation = json.at("last_evaluation").get<double>();
  }
  watch.evaluations_rising = json.value("evaluations_rising", int64_t{0});
  watch.told = json.value("told", std::vector<std::string>());
  return watch;
}

}  // namespace

bool StepMetrics::was_skipped() const {
  return !std::isfinite(gradient_norm);
}

Json progress_to_json(const RunProgress& progress) {
  Json evaluations = Json::array();
  for (const EvaluationMetrics& row : progress.evaluations) {
    Json sets = Json::array();
    for (const SetMetrics& set : row.sets) {
      sets.push_back(measures_to_json(set));
      sets.back()["name"] = set.name;
    }
    Json& evaluation = evaluations.emplace_back(measures_to_json(row));
    evaluation["step"] = row.step;
    evaluation["sets"] = sets;
  }
  Json best;
  if (progress.best) {
    best = {{"step", progress.best->step}, {"value", progress.best->value}};
  }
  return {{"steps", progress.steps},
          {"updates", progress.updates},
          {"tokens", progress.tokens},
          {"seconds", progress.seconds},
          {"first_loss", progress.first_loss},
          {"last_loss", progress.last_loss},
          {"evaluations", evaluations},
          {"best", best},
          {"evaluations_no_better", progress.evaluations_no_better},
          {"warnings", progress.warnings},
          {"watch", watch_to_json(progress.watch)}};
}

RunProgress progress_from_json(const Json& json, const std::string& source) {
  try {
    RunProgress progress;
    json.at("steps").get_to(progress.steps);
    json.at("updates").get_to(progress.updates);
    json.at("tokens").get_to(progress.tokens);
    json.at("seconds").get_to(progress.seconds);
    json.at("first_loss").get_to(progress.first_loss);
    json.at("last_loss").get_to(progress.last_loss);
    for (const Json& row : json.at("evaluations")) {
      EvaluationMetrics evaluation{.step = row.at("step")};
      measures_from_json(row, evaluation);
      for (const Json& set : row.at("sets")) {
        evaluation.sets.push_back({.name = set.at("name")});
        measures_from_json(set, evaluation.sets.back());
      }
      progress.evaluations.push_back(std::move(evaluation));
    }
    if (const Json& best = json.at("best"); !best.is_null()) {
      progress.best = {.step = best.at("step"), .value = best.at("value")};
    }
    json.at("evaluations_no_better").get_to(progress.evaluations_no_better);
    json.at("warnings").get_to(progress.warnings);
    progress.watch = watch_from_json(json.at("watch"));
    return progress;
  } catch (const Json::exception& error) {
    throw bad_input(fmt::format("{}: is not what snug writes of a run: {}", source, error.what()));
  }
}

}  // namespace snug
