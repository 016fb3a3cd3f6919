// A run in stages: everything is read, planned and asked for before the first one starts; then each is a run
// of its own, in a folder of its own, that begins with what the one before it left there.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "train/forgetting.h"
#include "train/other_split.h"
#include "train/run_folder.h"
#include "train/trainer.h"

namespace snug {

// The data of all stages, each with the sets of those before it that it is evaluated with.
std::vector<RunData> read_stage_data(const std::vector<Recipe>& stages, const LocatedModel& model,
                                     const DataObserver& observer);

class StagedRun {
 public:
  struct Options {
    bool overwrite = false;
    bool resume = false;
    std::filesystem::path checkpoint = {};  // to go on from; "": the newest whole one
  };
  // Claims the folders and finds where to go on. Throws bad_input for a recipe that is another experiment
  // than what was trained.
  StagedRun(std::vector<Recipe> stages, const LocatedModel& model, const Options& options);

  size_t size() const { return stages_.size(); }
  const Recipe& recipe(size_t stage) const { return stages_[stage].inputs.recipe; }
  std::vector<Recipe> recipes() const;
  const RunData& data(size_t stage) const { return stages_[stage].inputs.data; }
  std::filesystem::path folder(size_t stage) const { return stages_[stage].folder->path(); }
  const std::filesystem::path& root() const { return root_.path(); }
  // The first that is to be trained; size() if all are done.
  size_t next() const { return next_; }
  bool goes_on() const { return goes_on_; }
  // Whether a checkpoint of that stage is gone on from.
  bool resumes(size_t stage) const { return stages_[stage].inputs.resume.has_value(); }
  // Checkpoints that were passed over.
  const std::vector<std::string>& damaged() const { return damaged_; }

  // In this order.
  void read_data(const DataObserver& observer);
  // Of the stage that is gone on with, where its checkpoint's split does not fit.
  void split_otherwise(size_t stage, const OtherSplit& other);
  // Each gets the arenas of the largest; those of stages that are finished and have no room are left out.
  void set_plans(const std::vector<Recipe>& recipes, std::vector<Plan> plans);
  const Plan& plan(size_t stage) const { return stages_[stage].plan; }
  void begin();  // the folders are this run's from now on, and there is room for all that it will write
  TrainSummary train(size_t stage, Backend& backend, const RunEvents& events);
  // The last stage's result becomes the run's. Without all stages done, the run has stopped.
  Forgetting finish();

 private:
  struct Stage {
    TrainInputs inputs;
    Plan plan;
    std::unique_ptr<RunFolder> folder;
    std::optional<ResumePoint> done = std::nullopt;  // the last checkpoint of one that is finished
  };

  void find_next(const std::filesystem::path& checkpoint);
  void find_next_from(const std::filesystem::path& checkpoint);
  bool is_done(size_t stage);
  void connect(size_t stage);
  void merge_if_needed(size_t stage, const RunEvents& events);
  std::vector<PlannedFile> all_result_files() const;
  std::vector<PlannedFile> root_files() const;

  bool resume_;
  LocatedModel model_;
  RunFolder root_;
  std::vector<Stage> stages_;
  size_t next_ = 0;
  bool goes_on_ = false;
  std::vector<std::string> damaged_;
};

}  // namespace snug
