// PEFT's adapter folders: adapter_config.json and adapter_model.safetensors.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "exec/executor.h"
#include "io/disk_space.h"
#include "io/json.h"
#include "io/tensor_source.h"
#include "model/model_spec.h"
#include "recipe/recipe.h"
#include "train/weights.h"

namespace snug {

// Both files, as PEFT reads them.
void save_adapter(BufferReader& reader, const Recipe& recipe, const ModelSpec& spec,
                  const std::filesystem::path& folder, const BytesObserver& observer = {});

// What adapter_config.json says of adapters with these settings.
Json adapter_config(const LoraSection& lora, const Json& target_modules, const std::string& model_path,
                    const ModelSpec& spec);
void write_adapter_config(const Json& config, const std::filesystem::path& folder);

// The files that save_adapter writes, with what they take on the disk at most.
std::vector<PlannedFile> adapter_files(const Plan& plan);

// The LoRA settings of a PEFT folder; throws bad_input, by key, for what is no LoRA adapter or uses what snug
// does not know.
LoraSection read_adapter_config(const std::filesystem::path& folder);

// Throws bad_input, naming the key, unless these settings are those of the folder's adapter (but for
// dropout), so that training can go on with it.
void require_same_adapter(const LoraSection& lora, const std::filesystem::path& folder);

// Loads the adapters of a plan that was made with these settings, and the biases that the folder holds in
// place of the model's own. Throws bad_input for a tensor that is missing, and for one that nobody asks for.
void load_adapter(Executor& executor, const std::filesystem::path& folder);

// The same for those that stay as they are (Role::frozen_adapters).
void load_frozen_adapter(Executor& executor, const std::filesystem::path& folder);

// The folder's file of weights, and what it holds.
TensorSource open_adapter(const std::filesystem::path& folder);
std::vector<float> values_of(const SourceTensor& tensor);
std::string adapter_fingerprint(const std::filesystem::path& folder);

inline constexpr const char* kAdapterWeightsFile = "adapter_model.safetensors";
inline constexpr const char* kAdapterConfigFile = "adapter_config.json";
inline constexpr std::string_view kAdapterPrefix = "base_model.model.";

}  // namespace snug
