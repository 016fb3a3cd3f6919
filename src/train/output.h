// What a run leaves behind: a PEFT adapter folder or a Hugging Face model folder.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "exec/executor.h"
#include "io/disk_space.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"

namespace snug {

// adapter_config.json and adapter_model.safetensors, as PEFT reads them.
void save_adapter(Executor& executor, const Recipe& recipe, const ModelSpec& spec,
                  const std::filesystem::path& folder);

// config.json, the weights (sharded with an index above 5 GB) and the tokenizer's files; all but the weights
// come from the model's own folder, `source`.
void save_model(Executor& executor, const std::filesystem::path& source, const std::filesystem::path& folder);

// The files that save_adapter or save_model write, with what they take on the disk at most.
std::vector<PlannedFile> result_files(const Plan& plan, const Recipe& recipe,
                                      const std::filesystem::path& source);

// The LoRA settings of a PEFT folder; throws bad_input for what is no LoRA adapter or uses what snug lacks.
LoraSection read_adapter_config(const std::filesystem::path& folder);

}  // namespace snug
