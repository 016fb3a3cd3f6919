// What a run leaves in its folder: the recipe, the plan, metrics as it goes, checkpoints, the result, and a
// summary.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <future>
#include <optional>
#include <string>
#include <vector>

#include "train/checkpoint.h"
#include "train/metrics_log.h"
#include "train/run_folder.h"
#include "train/snapshot.h"
#include "train/tensorboard_log.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {

// What a run will write.
struct RunFiles {
  std::vector<PlannedFile> files;
  std::vector<PlannedFile> checkpoint;  // of one
  int64_t checkpoints = 0;              // at most at a time
  std::string plan;                     // what plan.json holds: its size is known by writing it
};
// README.md and its picture.
std::vector<PlannedFile> card_files();
RunFiles planned_files(const Plan& plan, const TrainInputs& inputs);

class RunOutput {
 public:
  // All must outlive it.
  RunOutput(const TrainInputs& inputs, RunFolder& folder) : inputs_(inputs), folder_(folder) {}

  // The folder is this run's from now on, with room for its result and its checkpoints. What is written as
  // the run goes listens to it; `events` must outlive this.
  void begin(const Plan& plan, const Device& device, int64_t total_steps, RunEvents& events);
  // Returns a warning, or "": a checkpoint that cannot be written does not end a run. Older ones go when it
  // is there. Where the plan has room for a copy of the state, it is written beside training, and the one
  // after waits for it. The last one of a run is written at once, and may take the disk space that was kept
  // for it.
  std::string save_checkpoint(Executor& executor, const RunProgress& progress, int64_t total_steps,
                              bool is_last, const BytesObserver& observer = {});
  // What became of the checkpoint that is written beside training, if it is done, or by waiting for it.
  std::string look_at_checkpoint();
  std::string wait_for_checkpoint();
  // How long the disk has taken nothing of it, while one is being written.
  std::optional<double> seconds_without_progress() const;
  // The newest one of this run that is known to be whole, or "".
  const std::filesystem::path& last_checkpoint() const { return last_checkpoint_; }
  // The one of this step, or "" if it is not kept.
  std::filesystem::path checkpoint_of(int64_t step) const;
  // The adapter or the model.
  void save_result(Executor& executor, const BytesObserver& observer);
  // Last: the summary, the model card of a result, and the manifest's word that the run is over.
  void finish(const TrainSummary& summary, const Plan& plan, const Device& device);

 private:
  // Its folder, or why there is none.
  struct Written {
    std::filesystem::path folder;
    std::string problem;
  };

  // On any thread.
  Written write_checkpoint(BufferReader& reader, const ResumePoint& point,
                           const BytesObserver& observer) const;
  void remove_old_checkpoints(const RunProgress& progress) const;
  std::string note(const Written& written, int64_t step);
  void write_card(const TrainSummary& summary, const Plan& plan, const Device& device);

  const TrainInputs& inputs_;
  RunFolder& folder_;
  std::optional<MetricsLog> metrics_;
  std::optional<TensorboardLog> tensorboard_;
  RunIdentity identity_;
  std::filesystem::path last_checkpoint_;
  std::optional<Snapshot> snapshot_;  // where the plan has room for it
  int64_t writing_step_ = 0;
  using Clock = std::chrono::steady_clock;
  std::atomic<Clock::time_point> last_progress_;  // of what is being written
  std::future<Written> writing_;                  // last: it is waited for before anything else goes
};

}  // namespace snug
