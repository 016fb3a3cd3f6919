// What a peer needs to begin where train_gpu begins and to see the same tokens: the weights as one block of
// numbers and where each tensor starts in it, and the batches. bench/gpu/peer.py reads the folder.
#pragma once

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "compile/phases.h"
#include "data/batches/batch.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "model/model_spec.h"
#include "plan/plan.h"
#include "train/weights.h"

namespace snug {

// A batch that can be learned: the next token is the target, and few batches come again and again. The last
// position of a sequence has no target, as in Hugging Face's loss.
inline void make_learnable(Batch& batch, const ModelSpec& spec) {
  batch.target_count = 0;
  for (size_t s = 0; s + 1 < batch.offsets.size(); ++s) {
    auto begin = static_cast<size_t>(batch.offsets[s]);
    auto end = static_cast<size_t>(batch.offsets[s + 1]);
    if (spec.has_encoder()) {
      std::copy(batch.targets.begin() + static_cast<std::ptrdiff_t>(begin),
                batch.targets.begin() + static_cast<std::ptrdiff_t>(end) - 1,
                batch.ids.begin() + static_cast<std::ptrdiff_t>(begin) + 1);
      batch.ids[begin] = static_cast<int32_t>(spec.decoder_start_id);
      batch.target_count += static_cast<int64_t>(end - begin);
      continue;
    }
    for (size_t i = begin; i < end; ++i) {
      batch.targets[i] = i + 1 < end ? batch.ids[i + 1] : -100;
    }
    batch.target_count += static_cast<int64_t>(end - begin) - 1;
  }
}

inline void write_numbers(const std::filesystem::path& path, const void* data, size_t bytes) {
  std::ofstream file(path, std::ios::binary);
  file.write(static_cast<const char*>(data), static_cast<std::streamsize>(bytes));
}

// `block` and how a buffer's values are made from it: value i is block[i % size] * deviation + mean.
struct StartValues {
  float deviation = 0;
  float mean = 0;
};
template <typename ValuesOf>
void write_same_start(const std::filesystem::path& folder, const Plan& plan, const std::vector<float>& block,
                      const std::vector<Batch>& batches, const ValuesOf& values_of_buffer) {
  std::filesystem::create_directories(folder);
  write_numbers(folder / "block.f32", block.data(), block.size() * sizeof(float));
  Json tensors = Json::object();
  const Program& load = plan.phase(kLoadPhase).program;
  for (Role role : {Role::base_weights, Role::adapters}) {
    for (const StoredTensor& stored : stored_tensors(plan, role, false)) {
      StartValues start = values_of_buffer(load.buffer(load.find(stored.buffer)));
      tensors[stored.name] = {
          {"first", stored.first_element}, {"deviation", start.deviation}, {"mean", start.mean}};
    }
  }
  Json rows = Json::array();
  for (const Batch& batch : batches) {
    rows.push_back({{"ids", batch.ids}, {"targets", batch.targets}, {"source_ids", batch.source_ids}});
  }
  write_file_atomically(folder / "start.json", Json{{"tensors", tensors}, {"batches", rows}}.dump());
}

}  // namespace snug
