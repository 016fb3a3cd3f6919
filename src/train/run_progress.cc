// To JSON and back.
#include "train/run_progress.h"

#include <fmt/format.h>

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
  const WatchMemory& watch = progress.watch;
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
          {"watch",
           {{"skipped_in_a_row", watch.skipped_in_a_row},
            {"warned_of_skips", watch.warned_of_skips},
            {"warned_of_size", watch.warned_of_size},
            {"smoothed", watch.smoothed},
            {"lowest_smoothed", watch.lowest_smoothed},
            {"seen", watch.seen}}}};
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
    const Json& watch = json.at("watch");
    watch.at("skipped_in_a_row").get_to(progress.watch.skipped_in_a_row);
    watch.at("warned_of_skips").get_to(progress.watch.warned_of_skips);
    watch.at("warned_of_size").get_to(progress.watch.warned_of_size);
    watch.at("smoothed").get_to(progress.watch.smoothed);
    watch.at("lowest_smoothed").get_to(progress.watch.lowest_smoothed);
    watch.at("seen").get_to(progress.watch.seen);
    return progress;
  } catch (const Json::exception& error) {
    throw bad_input(fmt::format("{}: is not what snug writes of a run: {}", source, error.what()));
  }
}

}  // namespace snug
