// Writing what a run leaves behind.
#include "train/run_output.h"

#include <fmt/format.h>

#include <chrono>

#include "base/check.h"
#include "base/error.h"
#include "io/atomic_file.h"
#include "plan/plan_json.h"
#include "plan/saving.h"
#include "plan/training.h"
#include "recipe/write.h"
#include "train/adapter_files.h"
#include "train/curve_svg.h"
#include "train/merge.h"
#include "train/metrics_rows.h"
#include "train/model_card.h"
#include "train/run_files.h"
#include "train/run_record.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSmallFileBytes = 4 << 10;

Json evaluations_json(const TrainSummary& summary) {
  Json evaluations = Json::array();
  for (const EvaluationMetrics& row : summary.evaluations) {
    evaluations.push_back(evaluation_row(row));
  }
  return evaluations;
}

}  // namespace

std::vector<PlannedFile> card_files() {
  return {{kModelCardFile, kSmallFileBytes}, {kCurveFile, kMostCurveBytes}};
}

RunFiles planned_files(const Plan& plan, const TrainInputs& inputs) {
  std::string plan_text = plan_file(plan);
  std::vector<PlannedFile> files = {{kRecipeFile, kSmallFileBytes},
                                    {kPlanFile, std::ssize(plan_text)},
                                    {kMetricsFile, kSmallFileBytes},
                                    {kLogFile, kSmallFileBytes}};
  for (const std::vector<PlannedFile>& more : {result_files(plan, inputs), card_files()}) {
    files.insert(files.end(), more.begin(), more.end());
  }
  auto add_folder = [&](const char* folder, const std::vector<PlannedFile>& inner) {
    files.push_back({folder, 0});
    for (const PlannedFile& file : inner) {
      files.push_back({fmt::format("{}/{}", folder, file.name), file.bytes});
    }
  };
  if (!inputs.recipe.stage.stacked.empty()) {
    add_folder(kOwnAdapterFolder, adapter_files(plan));
  }
  if (inputs.recipe.stage.start == StageStart::merge_first) {
    // They are there when the stage begins; their space was asked for before.
    std::vector<PlannedFile> merged = merged_model_files(inputs.model.folder);
    for (PlannedFile& file : merged) {
      file.bytes = 0;
    }
    add_folder(kMergedFolder, merged);
  }
  files.push_back({kSummaryFile, kSmallFileBytes});
  return {.files = std::move(files),
          .checkpoint = checkpoint_files(plan, inputs),
          .checkpoints = checkpoints_on_disk(inputs.recipe.training),
          .plan = std::move(plan_text)};
}

void RunOutput::begin(const Plan& plan, const Device& device, int64_t total_steps, RunEvents& events) {
  identity_ = identity_of(inputs_);
  if (inputs_.resume) {
    require_same_inputs(identity_, *inputs_.resume);
  }
  folder_.set_origin(origin_to_json(origin_of(device, identity_)));
  folder_.set_total_steps(total_steps);
  RunFiles planned = planned_files(plan, inputs_);
  std::string event_file = new_event_file_name();
  if (inputs_.recipe.logging.report_to == ReportTo::tensorboard) {
    planned.files.push_back({event_file, kSmallFileBytes});
  }
  folder_.begin(planned.files, planned.checkpoint, planned.checkpoints);
  write_file_atomically(folder_.file(kRecipeFile), recipe_to_yaml(inputs_.recipe));
  write_file_atomically(folder_.file(kPlanFile), planned.plan);
  std::string earlier_rows = inputs_.resume ? inputs_.resume->metrics : "";
  metrics_.emplace(folder_.file(kMetricsFile), earlier_rows, events);
  events.listen(*metrics_);
  if (inputs_.recipe.logging.report_to == ReportTo::tensorboard) {
    tensorboard_.emplace(folder_.file(event_file), inputs_.recipe, earlier_rows, events);
    events.listen(*tensorboard_);
  }
  if (inputs_.resume) {
    last_checkpoint_ = inputs_.resume->folder;
  }
}

std::string RunOutput::save_checkpoint(Executor& executor, const RunProgress& progress, int64_t total_steps,
                                       bool is_last, const BytesObserver& observer) {
  SNUG_CHECK(!writing_.valid(), "one checkpoint after the other");
  if (is_last) {
    folder_.release_space();
  }
  ResumePoint point{.folder = {},
                    .recipe = inputs_.recipe,
                    .identity = identity_,
                    .total_steps = total_steps,
                    .eval_sequences = executor.plan().evaluated_sequences.value_or(0),
                    .progress = progress,
                    .metrics = {}};
  try {
    point.metrics = metrics_->text();
  } catch (const Error& error) {  // the folder was taken away
    return note({.folder = {}, .problem = error.what()}, progress.steps);
  }
  if (is_last || !has_snapshot(executor.plan())) {
    DeviceReader reader(executor);
    return note(write_checkpoint(reader, point, observer), progress.steps);
  }
  if (!snapshot_) {
    snapshot_.emplace(executor);
  }
  snapshot_->take();
  writing_step_ = progress.steps;
  last_progress_ = Clock::now();
  writing_ = std::async(std::launch::async, [this, point = std::move(point)] {
    return write_checkpoint(*snapshot_, point, [&](int64_t, int64_t) { last_progress_ = Clock::now(); });
  });
  return "";
}

RunOutput::Written RunOutput::write_checkpoint(BufferReader& reader, const ResumePoint& point,
                                               const BytesObserver& observer) const {
  Written written;
  try {
    written.folder = write_checkpoint_folder(
        folder_.path(), point.progress.steps, [&](const std::filesystem::path& folder) {
          write_checkpoint_files(reader, inputs_, point, folder, observer);
        });
  } catch (const Error& error) {
    written.problem = error.what();
  } catch (const std::filesystem::filesystem_error& error) {  // what was written is gone already
    written.problem = error.what();
  }
  if (written.problem.empty()) {
    remove_old_checkpoints(point.progress);
  }
  return written;
}

std::string RunOutput::note(const Written& written, int64_t step) {
  if (written.problem.empty()) {
    last_checkpoint_ = written.folder;
    return "";
  }
  return fmt::format("the checkpoint of step {} was not saved: {}{}", step, written.problem,
                     last_checkpoint_.empty()
                         ? std::string()
                         : fmt::format("; {} is as it was", last_checkpoint_.filename().string()));
}

std::string RunOutput::look_at_checkpoint() {
  bool is_done = writing_.valid() && writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  return is_done ? note(writing_.get(), writing_step_) : "";
}

std::optional<double> RunOutput::seconds_without_progress() const {
  if (!writing_.valid() || writing_.wait_for(std::chrono::seconds(0)) == std::future_status::ready) {
    return std::nullopt;
  }
  return std::chrono::duration<double>(Clock::now() - last_progress_.load()).count();
}

std::string RunOutput::wait_for_checkpoint() {
  return writing_.valid() ? note(writing_.get(), writing_step_) : "";
}

void RunOutput::remove_old_checkpoints(const RunProgress& progress) const {
  const TrainingSection& training = inputs_.recipe.training;
  int64_t kept = 0;
  for (const CheckpointFolder& checkpoint : find_checkpoints(folder_.path())) {
    bool is_later =
        checkpoint.step > progress.steps;  // of a run that was longer, before it was taken up here
    bool is_best = training.load_best_model_at_end && progress.best && checkpoint.step == progress.best->step;
    kept += is_later || is_best ? 0 : 1;
    if (is_later || (!is_best && kept > training.save_total_limit)) {
      remove_checkpoint(checkpoint.path);
    }
  }
}

std::filesystem::path RunOutput::checkpoint_of(int64_t step) const {
  std::filesystem::path folder = folder_.path() / checkpoint_name(step);
  return std::filesystem::exists(folder / kCheckpointManifest) ? folder : std::filesystem::path();
}

void RunOutput::save_result(Executor& executor, const BytesObserver& observer) {
  folder_.release_space();
  DeviceReader reader(executor);
  save_result_files(reader, inputs_, folder_.path(), observer);
  if (!inputs_.frozen_adapter.empty()) {
    save_adapter(reader, inputs_.recipe, inputs_.model.spec, folder_.path() / kOwnAdapterFolder);
  }
}

void RunOutput::write_card(const TrainSummary& summary, const Plan& plan, const Device& device) {
  bool has_rows = fs::exists(folder_.file(kMetricsFile));  // else the folder was taken away
  std::string curve = has_rows ? curve_svg(metrics_->text()) : "";
  if (!curve.empty()) {
    write_file_atomically(folder_.file(kCurveFile), curve);
  }
  // A stage's result is also that of the folder around it.
  fs::path folder = fs::absolute(folder_.path()).lexically_normal();
  std::string name = folder.filename().string();
  if (!inputs_.recipe.stage.name.empty()) {
    name = (folder.parent_path().filename() / name).string();
  }
  write_file_atomically(folder_.file(kModelCardFile), model_card({.recipe = inputs_.recipe,
                                                                  .spec = inputs_.model.spec,
                                                                  .summary = summary,
                                                                  .plan = plan,
                                                                  .origin = origin_of(device, identity_),
                                                                  .name = name,
                                                                  .has_curve = !curve.empty()}));
}

void RunOutput::finish(const TrainSummary& summary, const Plan& plan, const Device& device) {
  folder_.release_space();
  Json json = {{"steps", summary.steps},
               {"total_steps", summary.total_steps},
               {"interrupted", summary.interrupted},
               {"ended_early", summary.ended_early},
               {"stopped_because", summary.stopped_because.empty() ? Json() : Json(summary.stopped_because)},
               {"updates", summary.updates},
               {"skipped_updates", summary.skipped_updates()},
               {"first_loss", summary.first_loss},
               {"last_loss", summary.last_loss},
               {"evaluations", evaluations_json(summary)},
               {"best_step", summary.best ? Json(summary.best->step) : Json()},
               {"tokens", summary.tokens},
               {"seconds", summary.seconds},
               {"trainable_parameters", plan.trainable_parameters},
               {"planned_bytes", summary.planned_bytes},
               {"allocated_bytes", summary.allocated_bytes},
               {"peak_used_bytes", summary.peak_used_bytes},
               {"metrics_rows_lost", metrics_->rows_lost()},
               {"checkpoint", summary.checkpoint.empty() ? Json() : Json(summary.checkpoint)},
               {"warnings", summary.warnings}};
  write_file_atomically(folder_.file(kSummaryFile), json.dump(2) + "\n");
  bool whole = !summary.interrupted && summary.stopped_because.empty();
  if (whole) {
    write_card(summary, plan, device);
  }
  folder_.finish(whole ? RunState::complete : RunState::stopped);
}

}  // namespace snug
