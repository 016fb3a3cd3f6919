// What a checkpoint of a run holds: its result as far as it is (a folder that PEFT or transformers reads),
// and what is needed to go on to the bit.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "io/disk_space.h"
#include "train/buffer_reader.h"
#include "train/checkpoint_folder.h"
#include "train/trainer.h"
#include "train/weights.h"

namespace snug {

RunIdentity identity_of(const TrainInputs& inputs);

// The adapter or the model, in files of their own.
void save_result_files(BufferReader& reader, const TrainInputs& inputs, const std::filesystem::path& folder,
                       const BytesObserver& observer = {});
std::vector<PlannedFile> result_files(const Plan& plan, const TrainInputs& inputs);

// All files of a checkpoint; `point` says what is not on the device.
void write_checkpoint_files(BufferReader& reader, const TrainInputs& inputs, const ResumePoint& point,
                            const std::filesystem::path& folder, const BytesObserver& observer = {});
// The same by name, with what they take on the disk at most.
std::vector<PlannedFile> checkpoint_files(const Plan& plan, const TrainInputs& inputs);

// Throws bad_input, naming the file, unless the checkpoint is whole.
ResumePoint read_resume_point(const std::filesystem::path& folder);

// The newest checkpoint of a run's folder that is whole; `damaged` gets a line for each newer one that is
// not.
std::optional<ResumePoint> find_resume_point(const std::filesystem::path& run_folder,
                                             std::vector<std::string>& damaged);

// The recipe to go on with: `asked`, with the split and the tiling of the checkpoint's. Throws bad_input
// naming the first key that would make it another experiment.
Recipe recipe_to_go_on(const Recipe& asked, const ResumePoint& point);

// Throws bad_input if the data or the model is another than the checkpoint's.
void require_same_inputs(const RunIdentity& identity, const ResumePoint& point);

// Puts the device's state back. Weights that are not trained must be loaded already.
void load_checkpoint(Executor& executor, const TrainInputs& inputs, const std::filesystem::path& folder);

}  // namespace snug
