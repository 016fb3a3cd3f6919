// Reads the data as training would.
#include "cli/data_limits.h"

#include <fmt/format.h>

#include "base/error.h"
#include "data/batches/limits.h"
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

}  // namespace

std::vector<LimitsOf> limits_of_data(const std::vector<Recipe>& stages, bool with_data) {
  std::vector<LimitsOf> limits(stages.size());
  if (!with_data) {
    return limits;
  }
  if (stages.front().stage.name.empty()) {
    RunData data = read_data(stages.front());
    return {DataLimits(stages.front(), data.train, data.read_in_evaluations())};
  }
  LocatedModel model = locate_model_files(stages.front().model.path);
  DataProgressLine progress;
  std::vector<RunData> all =
      read_stage_data(stages, model, [&](const DataProgress& now) { progress.show(now); });
  for (size_t i = 0; i < stages.size(); ++i) {
    limits[i] = DataLimits(stages[i], all[i].train, all[i].read_in_evaluations());
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
