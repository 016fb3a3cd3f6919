// What a run has changed on the device, by name, in files (state_buffers in plan/saving.h).
#pragma once

#include <filesystem>
#include <vector>

#include "train/weights.h"

namespace snug {

enum class StateScope {
  everything,
  // All but the weights of full fine-tuning, which the model's own files hold as they are.
  beside_model_files,
};
std::vector<StoredTensor> state_tensors(const Plan& plan, StateScope scope);

// All of them to one safetensors file, and back to the bit. Reading throws bad_input if the file is of
// another plan.
void save_state(BufferReader& reader, StateScope scope, const std::filesystem::path& file,
                const BytesObserver& observer = {});
void load_state(Executor& executor, StateScope scope, const std::filesystem::path& file);

}  // namespace snug
