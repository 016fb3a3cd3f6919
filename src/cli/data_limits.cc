// Reads the data as training would.
#include "cli/data_limits.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/batches/limits.h"
#include "data/batches/sequence.h"
#include "fit/cut_share.h"
#include "model/locate.h"
#include "report/data_progress.h"
#include "train/staged_run.h"
#include "train/trainer.h"

namespace snug {
namespace {

RunData read_data(const Recipe& recipe) {
  DataProgressLine progress;
  return read_train_inputs(recipe, locate_model_files(recipe.model.path),
                           [&](const DataProgress& now) { progress.show(now); })
      .data;
}

PlannedData known_from(const Recipe& recipe, const RunData& data) {
  BatchSequence steps(data.train, training_batches(recipe, data.train));
  RunLength length{.rows = examples_per_epoch(data.train),
                   .steps_per_epoch = steps.steps_per_epoch(),
                   .steps = steps.total_steps()};
  TokenCounts evaluated;
  for (const Dataset* one : data.evaluated()) {
    evaluated.add(one->count_tokens());
  }
  if (evaluated.with_sources() > 0) {
    length.evaluated_tokens = static_cast<double>(evaluated.with_sources());
    length.evaluated_learned = evaluated.learned_share();
  }
  return {DataLimits(recipe, data.train, data.read_in_evaluations()), length};
}

}  // namespace

std::vector<PlannedData> planned_data(const std::vector<Recipe>& stages, const DataQuestion& question) {
  std::vector<PlannedData> planned(stages.size());
  if (!question.with_data) {
    for (size_t i = 0; i < stages.size(); ++i) {
      planned[i].length = length_without_data(stages[i].training, question.rows);
    }
    return planned;
  }
  if (stages.front().stage.name.empty()) {
    return {known_from(stages.front(), read_data(stages.front()))};
  }
  LocatedModel model = locate_model_files(stages.front().model.path);
  DataProgressLine progress;
  std::vector<RunData> all =
      read_stage_data(stages, model, [&](const DataProgress& now) { progress.show(now); });
  for (size_t i = 0; i < stages.size(); ++i) {
    planned[i] = known_from(stages[i], all[i]);
  }
  return planned;
}

std::vector<LimitsOf> limits_of(const std::vector<PlannedData>& data) {
  std::vector<LimitsOf> limits;
  for (const PlannedData& one : data) {
    limits.push_back(one.limits);
  }
  return limits;
}

std::string describe_cut(const Recipe& recipe, const std::string& setting) {
  size_t equals = setting.find('=');
  std::string key = setting.substr(0, equals);
  bool is_length = key.ends_with("data.max_length");
  if (!is_length && !key.ends_with("data.max_target_length")) {
    return "";
  }
  try {
    RunData data = read_data(recipe);
    CutSide side = is_length && data.train.has_sources() ? CutSide::sources : CutSide::answers;
    CutShare cut = share_cut(data.train, std::stoll(setting.substr(equals + 1)), side);
    return cut.rows > 0 ? fmt::format("cuts {:.1f}% of the data's tokens, in {:.1f}% of its rows",
                                      100 * cut.tokens, 100 * cut.rows)
                        : "cuts nothing of this data";
  } catch (const Error&) {
    return "the data is not here: what it cuts is not known";
  }
}

}  // namespace snug
