// Writing what a run leaves behind.
#include "train/run_output.h"

#include <fmt/format.h>

#include "io/atomic_file.h"
#include "plan/plan_json.h"
#include "recipe/write.h"
#include "train/adapter_files.h"
#include "train/output.h"

namespace snug {
namespace {

constexpr const char* kRecipe = "recipe.yml";
constexpr const char* kPlan = "plan.json";
constexpr const char* kMetrics = "metrics.jsonl";
constexpr const char* kSummary = "summary.json";
constexpr int64_t kSmallFileBytes = 4 << 10;

Json evaluations_json(const TrainSummary& summary) {
  Json evaluations = Json::array();
  for (const EvaluationMetrics& row : summary.evaluations) {
    evaluations.push_back({{"step", row.step}, {"loss", row.loss}});
  }
  return evaluations;
}

}  // namespace

void RunOutput::begin(const Plan& plan) {
  std::vector<PlannedFile> files = {
      {kRecipe, kSmallFileBytes}, {kPlan, kSmallFileBytes}, {kMetrics, kSmallFileBytes}};
  std::vector<PlannedFile> result =
      inputs_.recipe.lora ? adapter_files(plan) : model_files(plan, inputs_.model.folder);
  files.insert(files.end(), result.begin(), result.end());
  files.push_back({kSummary, kSmallFileBytes});
  folder_.begin(files);
  write_file_atomically(folder_.file(kRecipe), recipe_to_yaml(inputs_.recipe));
  write_file_atomically(folder_.file(kPlan), plan_to_json(plan).dump(2) + "\n");
  metrics_.emplace(folder_.file(kMetrics));
}

std::string RunOutput::append(const Json& row) {
  bool is_first_loss = !metrics_->append(row) && metrics_->rows_lost() == 1;
  return is_first_loss ? metrics_->problem() + "; training goes on without these rows" : "";
}

std::string RunOutput::log_step(const StepMetrics& row, int64_t tokens_so_far) {
  return append({{"step", row.step},
                 {"epoch", row.epoch},
                 {"loss", row.loss},
                 {"grad_norm", row.gradient_norm},
                 {"learning_rate", row.learning_rate},
                 {"skipped_updates", row.skipped_updates},
                 {"tokens", tokens_so_far},
                 {"tokens_per_second", static_cast<double>(row.tokens) / std::max(row.seconds, 1e-9)}});
}

std::string RunOutput::log_evaluation(const EvaluationMetrics& row) {
  return append({{"step", row.step}, {"eval_loss", row.loss}, {"eval_targets", row.targets}});
}

void RunOutput::save_result(Executor& executor, const BytesObserver& observer) {
  folder_.release_space();
  if (inputs_.recipe.lora) {
    save_adapter(executor, inputs_.recipe, inputs_.model.spec, folder_.path(), observer);
  } else {
    save_model(executor, inputs_.model.folder, folder_.path(), observer);
  }
}

void RunOutput::finish(const TrainSummary& summary, const Plan& plan) {
  folder_.release_space();
  Json json = {{"steps", summary.steps},
               {"total_steps", summary.total_steps},
               {"interrupted", summary.interrupted},
               {"stopped_because", summary.stopped_because.empty() ? Json() : Json(summary.stopped_because)},
               {"updates", summary.updates},
               {"skipped_updates", summary.skipped_updates()},
               {"first_loss", summary.first_loss},
               {"last_loss", summary.last_loss},
               {"evaluations", evaluations_json(summary)},
               {"tokens", summary.tokens},
               {"seconds", summary.seconds},
               {"trainable_parameters", plan.trainable_parameters},
               {"planned_bytes", summary.planned_bytes},
               {"allocated_bytes", summary.allocated_bytes},
               {"peak_used_bytes", summary.peak_used_bytes},
               {"metrics_rows_lost", metrics_->rows_lost()},
               {"warnings", summary.warnings}};
  write_file_atomically(folder_.file(kSummary), json.dump(2) + "\n");
  bool whole = !summary.interrupted && summary.stopped_because.empty();
  folder_.finish(whole ? RunState::complete : RunState::stopped);
}

}  // namespace snug
