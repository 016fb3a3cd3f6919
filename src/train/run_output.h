// What a run leaves in its folder: the recipe, the plan, metrics as it goes, the result, and a summary.
#pragma once

#include <optional>
#include <string>

#include "train/metrics_file.h"
#include "train/run_folder.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {

class RunOutput {
 public:
  // All must outlive it.
  RunOutput(const TrainInputs& inputs, RunFolder& folder) : inputs_(inputs), folder_(folder) {}

  // The folder is this run's from now on, with room for its result.
  void begin(const Plan& plan);
  // Each returns a warning, or "": metrics that cannot be written do not end a run.
  std::string log_step(const StepMetrics& row, int64_t tokens_so_far);
  std::string log_evaluation(const EvaluationMetrics& row);
  // The adapter or the model.
  void save_result(Executor& executor, const BytesObserver& observer);
  // Last: the summary, and the manifest's word that the run is over.
  void finish(const TrainSummary& summary, const Plan& plan);

 private:
  std::string append(const Json& row);

  const TrainInputs& inputs_;
  RunFolder& folder_;
  std::optional<MetricsFile> metrics_;
};

}  // namespace snug
