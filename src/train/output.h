// What full fine-tuning leaves behind: a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "exec/executor.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

// config.json, the weights (sharded with an index above 5 GB) and the tokenizer's files; all but the weights
// come from the model's own folder, `source`.
void save_model(Executor& executor, const std::filesystem::path& source, const std::filesystem::path& folder);

}  // namespace snug
