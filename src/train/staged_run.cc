// Stages one behind the other.
#include "train/staged_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/error.h"
#include "io/atomic_file.h"
#include "plan/plan_json.h"
#include "recipe/parse.h"
#include "recipe/stages.h"
#include "recipe/write.h"
#include "train/adapter_files.h"
#include "train/checkpoint.h"
#include "train/merge.h"
#include "train/run_files.h"
#include "train/run_output.h"

namespace snug {
namespace {

namespace fs = std::filesystem;

constexpr int64_t kSmallFileBytes = 64 << 10;

std::vector<std::string> names_of(const std::vector<Recipe>& stages) {
  std::vector<std::string> names;
  for (const Recipe& stage : stages) {
    names.push_back(stage.stage.name);
  }
  return names;
}

bool has_same_length(const Recipe& a, const Recipe& b) {
  return a.training.max_steps == b.training.max_steps &&
         a.training.num_train_epochs == b.training.num_train_epochs;
}

int64_t bytes_below(const fs::path& folder) {
  int64_t bytes = 0;
  std::error_code ignored;
  for (const fs::directory_entry& entry : fs::recursive_directory_iterator(folder, ignored)) {
    bytes += entry.is_regular_file(ignored) ? static_cast<int64_t>(entry.file_size(ignored)) : 0;
  }
  return bytes;
}

// Under its new name without being copied, where the file system can do that.
void place_copy(const fs::path& from, const fs::path& to) {
  fs::path made = partial_name(to);
  std::error_code status;
  fs::remove(made, status);
  fs::create_hard_link(from, made, status);
  if (status) {
    fs::copy_file(from, made, status);
  }
  if (status) {
    throw write_error(status.value(), to, "cannot be written");
  }
  rename_into_place(made, to);
}

}  // namespace

std::vector<RunData> read_stage_data(const std::vector<Recipe>& stages, const LocatedModel& model,
                                     const DataObserver& observer) {
  std::vector<RunData> all;
  for (const Recipe& stage : stages) {
    RunData data = load_run_data(stage, data_model(model), observer);
    for (size_t k = 0; k < all.size(); ++k) {
      const std::vector<EarlierStage>& earlier = stage.stage.earlier;
      bool is_evaluated = std::any_of(earlier.begin(), earlier.end(), [&](const EarlierStage& one) {
        return one.name == stages[k].stage.name;
      });
      if (is_evaluated) {
        data.earlier.insert(data.earlier.end(), all[k].eval_sets.begin(), all[k].eval_sets.end());
      }
    }
    all.push_back(std::move(data));
  }
  return all;
}

StagedRun::StagedRun(std::vector<Recipe> stages, const LocatedModel& model, const Options& options)
    : resume_(options.resume),
      model_(model),
      root_({.folder = stages.front().output_dir,
             .model_folder = model.folder,
             .overwrite = options.overwrite,
             .resume = options.resume,
             .stages = names_of(stages)}) {
  for (Recipe& recipe : stages) {
    bool is_first = stages_.empty();
    Stage& stage = stages_.emplace_back();
    stage.folder = std::make_unique<RunFolder>(RunFolder::Options{.folder = root_.path() / recipe.stage.name,
                                                                  .model_folder = model.folder,
                                                                  .overwrite = options.overwrite,
                                                                  .resume = options.resume});
    recipe.model.from_scratch = recipe.model.from_scratch && is_first;
    stage.inputs.recipe = std::move(recipe);
    stage.inputs.model = model;
  }
  if (resume_) {
    find_next(options.checkpoint);
  }
}

std::vector<Recipe> StagedRun::recipes() const {
  std::vector<Recipe> all;
  for (const Stage& stage : stages_) {
    all.push_back(stage.inputs.recipe);
  }
  return all;
}

// Whether the stage is finished, by a recipe that is still the same; it takes that one's split.
bool StagedRun::is_done(size_t index) {
  Stage& stage = stages_[index];
  if (!stage.folder->is_complete()) {
    return false;
  }
  const fs::path& folder = stage.folder->path();
  ResumePoint point;
  point.folder = folder;
  point.recipe = read_recipe(folder / kRecipeFile);
  bool is_longer = !has_same_length(stage.inputs.recipe, point.recipe);
  if (is_longer && index + 1 < stages_.size()) {
    throw bad_input(fmt::format(
        "stage {} is finished, and later stages begin with what it learned: training.max_steps and "
        "num_train_epochs cannot change any more. Set them back to go on, or begin a new run in another "
        "folder (--set output_dir=...)",
        stage.inputs.recipe.stage.name));
  }
  stage.inputs.recipe = recipe_to_go_on(stage.inputs.recipe, point);
  stage.done = find_resume_point(folder, damaged_);
  return !is_longer || !stage.done;
}

void StagedRun::find_next(const fs::path& checkpoint) {
  if (!checkpoint.empty()) {
    find_next_from(checkpoint);
    return;
  }
  while (next_ < stages_.size() && is_done(next_)) {
    ++next_;
  }
  goes_on_ = next_ > 0;
  if (next_ == stages_.size()) {
    return;
  }
  Stage& stage = stages_[next_];
  stage.done.reset();
  if (std::optional<ResumePoint> point = find_resume_point(stage.folder->path(), damaged_)) {
    stage.inputs.recipe = recipe_to_go_on(stage.inputs.recipe, *point);
    stage.inputs.resume = std::move(point);
    goes_on_ = true;
  }
}

void StagedRun::find_next_from(const fs::path& checkpoint) {
  fs::path parent = fs::absolute(checkpoint).lexically_normal();
  parent = parent.filename().empty() ? parent.parent_path().parent_path() : parent.parent_path();
  auto found = std::find_if(stages_.begin(), stages_.end(), [&](const Stage& stage) {
    std::error_code ignored;
    return fs::equivalent(stage.folder->path(), parent, ignored);
  });
  if (found == stages_.end()) {
    throw bad_input(fmt::format("--resume={}: is not in the folder of a stage of this run ({})",
                                checkpoint.string(), root_.path().string()));
  }
  next_ = static_cast<size_t>(found - stages_.begin());
  goes_on_ = true;
  for (size_t i = 0; i < next_; ++i) {
    if (!is_done(i)) {
      throw bad_input(fmt::format("--resume={}: stage {} before it is not finished; go on with --resume",
                                  checkpoint.string(), recipe(i).stage.name));
    }
  }
  ResumePoint point = read_resume_point(checkpoint);
  found->inputs.recipe = recipe_to_go_on(found->inputs.recipe, point);
  found->inputs.resume = std::move(point);
}

void StagedRun::read_data(const DataObserver& observer) {
  std::vector<RunData> all = read_stage_data(recipes(), model_, observer);
  for (size_t i = 0; i < stages_.size(); ++i) {
    TrainInputs& inputs = stages_[i].inputs;
    inputs.data = std::move(all[i]);
    inputs.evaluates_first = true;
  }
  if (const std::optional<LoraSection>& lora = recipe(0).lora; lora && !lora->start.empty()) {
    require_same_adapter(*lora, lora->start);
    stages_.front().inputs.start_adapter = lora->start;
  }
}

void StagedRun::split_otherwise(size_t stage, const OtherSplit& other) {
  TrainInputs& inputs = stages_[stage].inputs;
  inputs.recipe = other.recipe;
  inputs.resume->progress.warnings.push_back(other.warning);
}

void StagedRun::set_plans(const std::vector<Recipe>& recipes, std::vector<Plan> plans) {
  std::array<int64_t, kHomeCount> largest{};
  for (size_t i = 0; i < plans.size(); ++i) {
    bool is_taken = i >= next_ || plans[i].fits();
    for (size_t home = 0; home < largest.size() && is_taken; ++home) {
      largest[home] = std::max(largest[home], plans[i].arena_bytes[home]);
    }
  }
  for (size_t i = 0; i < stages_.size(); ++i) {
    stages_[i].inputs.recipe = recipes[i];
    stages_[i].plan = std::move(plans[i]);
    stages_[i].plan.arena_bytes = largest;
  }
}

// Of the last stage, which are the run's too.
std::vector<PlannedFile> StagedRun::all_result_files() const {
  std::vector<PlannedFile> files = result_files(stages_.back().plan, stages_.back().inputs);
  std::vector<PlannedFile> card = card_files();
  files.insert(files.end(), card.begin(), card.end());
  return files;
}

std::vector<PlannedFile> StagedRun::root_files() const {
  std::vector<PlannedFile> files = {{kRecipeFile, kSmallFileBytes}, {kPlanFile, kSmallFileBytes}};
  std::vector<PlannedFile> result = all_result_files();
  files.insert(files.end(), result.begin(), result.end());
  files.push_back({kStagesFile, kSmallFileBytes});
  files.push_back({kSummaryFile, kSmallFileBytes});
  return files;
}

void StagedRun::begin() {
  std::vector<PlannedFile> wanted = root_files();
  for (const Stage& stage : stages_) {
    RunFiles planned = planned_files(stage.plan, stage.inputs);
    wanted.insert(wanted.end(), planned.files.begin(), planned.files.end());
    for (int64_t i = 0; i < planned.checkpoints; ++i) {
      wanted.insert(wanted.end(), planned.checkpoint.begin(), planned.checkpoint.end());
    }
    if (stage.inputs.recipe.stage.start == StageStart::merge_first) {
      std::vector<PlannedFile> merged = merged_model_files(model_.folder);
      wanted.insert(wanted.end(), merged.begin(), merged.end());
    }
  }
  require_disk_space(root_.path(), wanted, bytes_below(root_.path()));
  // What comes behind the first stage that is trained was made of another one's result.
  for (size_t i = resume_ ? next_ + 1 : 0; i < stages_.size(); ++i) {
    stages_[i].folder->clear();
  }
  std::vector<PlannedFile> files = root_files();
  root_.begin(files, {}, 0);
  root_.release_space();  // asked for; each stage takes its own
  write_file_atomically(root_.file(kRecipeFile), recipes_to_yaml(recipes()));
  Json plans = Json::array();
  for (const Stage& stage : stages_) {
    plans.push_back(plan_to_json(stage.plan));
    plans.back()["stage"] = stage.inputs.recipe.stage.name;
  }
  write_file_atomically(root_.file(kPlanFile), Json({{"stages", plans}}).dump(2) + "\n");
  for (size_t i = 0; i < next_; ++i) {
    connect(i);
    if (stages_[i].done) {
      require_same_inputs(identity_of(stages_[i].inputs), *stages_[i].done);
    }
  }
}

// What the stage begins with, now that the one before it is done.
void StagedRun::connect(size_t index) {
  TrainInputs& inputs = stages_[index].inputs;
  if (index == 0) {
    return;
  }
  const TrainInputs& before = stages_[index - 1].inputs;
  const fs::path& folder_before = stages_[index - 1].folder->path();
  inputs.model.folder = before.model.folder;
  inputs.recipe.model.path = before.recipe.model.path;
  switch (inputs.recipe.stage.start) {
    case StageStart::fresh:
      break;
    case StageStart::go_on:
      inputs.frozen_adapter = before.frozen_adapter;
      if (inputs.recipe.lora) {
        inputs.start_adapter =
            before.frozen_adapter.empty() ? folder_before : folder_before / kOwnAdapterFolder;
      } else {
        inputs.model.folder = folder_before.string();
      }
      break;
    case StageStart::stack:
      inputs.frozen_adapter = folder_before;
      break;
    case StageStart::merge_first:
      inputs.model.folder = (stages_[index].folder->path() / kMergedFolder).string();
      inputs.recipe.model.path = inputs.model.folder;
      break;
  }
}

void StagedRun::merge_if_needed(size_t index, const RunEvents& events) {
  const Stage& stage = stages_[index];
  fs::path target = stage.folder->path() / kMergedFolder;
  bool is_there = fs::exists(target) && stage.inputs.resume;
  if (stage.inputs.recipe.stage.start != StageStart::merge_first || is_there) {
    return;
  }
  const fs::path& adapter = stages_[index - 1].folder->path();
  events.stage(fmt::format("merging {} into the weights", adapter.string()));
  merge_adapter(stage.plan, stages_[index - 1].inputs.model.folder, adapter, target,
                [&](int64_t done, int64_t total) {
                  events.progress({"merging", done, total});
                });
}

TrainSummary StagedRun::train(size_t index, Backend& backend, const RunEvents& events) {
  events.telling_failure([&] { merge_if_needed(index, events); });
  connect(index);
  Stage& stage = stages_[index];
  TrainSummary summary = snug::train(stage.inputs, stage.plan, backend, events, *stage.folder);
  next_ = summary.interrupted ? index : index + 1;
  return summary;
}

Forgetting StagedRun::finish() {
  std::vector<Json> summaries;
  for (size_t i = 0; i < next_; ++i) {
    summaries.push_back(read_json(folder(i) / kSummaryFile));
  }
  Forgetting forgetting = make_forgetting(recipes(), summaries);
  bool is_whole = next_ == stages_.size();
  if (is_whole) {
    for (const PlannedFile& file : all_result_files()) {
      if (fs::path from = folder(size() - 1) / file.name; fs::exists(from)) {
        place_copy(from, root_.file(file.name));
      }
    }
  }
  Json summary = {{"interrupted", !is_whole}, {"stages", Json::array()}};
  for (size_t i = 0; i < summaries.size(); ++i) {
    summaries[i]["stage"] = recipe(i).stage.name;
    summary["stages"].push_back(summaries[i]);
  }
  summary["forgetting"] = forgetting_to_json(forgetting);
  write_file_atomically(root_.file(kStagesFile), summary["forgetting"].dump(2) + "\n");
  write_file_atomically(root_.file(kSummaryFile), summary.dump(2) + "\n");
  root_.finish(is_whole ? RunState::complete : RunState::stopped);
  return forgetting;
}

}  // namespace snug
