// What full fine-tuning leaves behind: a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <vector>

#include "exec/executor.h"
#include "io/disk_space.h"
#include "train/weights.h"

namespace snug {

// config.json, the weights (sharded with an index above 5 GB) and the tokenizer's files; all but the weights
// come from the model's own folder, `source`.
void save_model(BufferReader& reader, const std::filesystem::path& source,
                const std::filesystem::path& folder, const BytesObserver& observer = {});

// The files that save_model writes, with what they take on the disk at most.
std::vector<PlannedFile> model_files(const Plan& plan, const std::filesystem::path& source);

// The files of a model's folder that go along with its weights as they are, its config left out.
std::vector<std::string> copied_model_files(const std::filesystem::path& source);

}  // namespace snug
