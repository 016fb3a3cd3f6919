// Adapters on top of each other as the one that they are together: B1 A1 + B2 A2 is [B1 B2] [A1; A2].
#pragma once

#include <filesystem>
#include <vector>

#include "io/disk_space.h"
#include "train/buffer_reader.h"
#include "train/trainer.h"

namespace snug {

// A folder for PEFT, in fp32: what is trained on top of `inputs.frozen_adapter`, whose values come from its
// own file. Ranks add up; scales are multiplied into B, so that the scale of the whole is 1.
void save_stacked_adapter(BufferReader& reader, const TrainInputs& inputs,
                          const std::filesystem::path& folder);
std::vector<PlannedFile> stacked_adapter_files(const Plan& plan);

}  // namespace snug
