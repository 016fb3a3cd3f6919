// Adapters become part of the weights: W + scale * B A, in the format that the file has. The result is a
// model's folder like the one it came from.
#pragma once

#include <filesystem>
#include <vector>

#include "io/disk_space.h"
#include "train/weights.h"

namespace snug {

// `plan` knows the names of the model's tensors. `target` appears when it is whole; one that is there goes.
void merge_adapter(const Plan& plan, const std::filesystem::path& model, const std::filesystem::path& adapter,
                   const std::filesystem::path& target, const BytesObserver& observer = {});

// What it writes, of a model with these files.
std::vector<PlannedFile> merged_model_files(const std::filesystem::path& model);

}  // namespace snug
