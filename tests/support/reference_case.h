// Reference cases made by tools/make_references.py: a tiny model folder, a batch, and what Hugging Face says.
#pragma once

#include <algorithm>
#include <cmath>
#include <filesystem>
#include <string>
#include <vector>

#include "data/batches/batch.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "io/safetensors.h"
#include "recipe/recipe.h"
#include "test_paths.h"

namespace snug {

inline std::filesystem::path reference_folder(const std::string& name) {
  return std::filesystem::path(SNUG_SOURCE_DIR) / "tests/goldens/references" / name;
}

// Every case that has `file`, so that none is forgotten.
inline std::vector<std::string> reference_cases_with(const std::string& file) {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(reference_folder(""))) {
    if (std::filesystem::exists(entry.path() / file)) {
      names.push_back(entry.path().filename().string());
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

inline Batch batch_of_sequences(const Json& sequences, const std::vector<size_t>& indices) {
  Batch batch;
  batch.offsets.push_back(0);
  if (sequences[0].contains("source")) {
    batch.source_offsets.push_back(0);
  }
  for (size_t index : indices) {
    auto ids = sequences[index]["ids"].get<std::vector<int32_t>>();
    auto targets = sequences[index]["targets"].get<std::vector<int32_t>>();
    for (size_t i = 0; i < ids.size(); ++i) {
      batch.ids.push_back(ids[i]);
      batch.targets.push_back(targets[i]);
      batch.positions.push_back(static_cast<int32_t>(i));
      batch.target_count += targets[i] >= 0 ? 1 : 0;
    }
    batch.offsets.push_back(static_cast<int32_t>(batch.ids.size()));
    if (sequences[index].contains("source")) {
      auto source = sequences[index]["source"].get<std::vector<int32_t>>();
      batch.source_ids.insert(batch.source_ids.end(), source.begin(), source.end());
      batch.source_offsets.push_back(static_cast<int32_t>(batch.source_ids.size()));
    }
  }
  return batch;
}

inline Batch whole_batch(const Json& sequences) {
  std::vector<size_t> all(sequences.size());
  for (size_t i = 0; i < all.size(); ++i) {
    all[i] = i;
  }
  return batch_of_sequences(sequences, all);
}

// A recipe that plans enough for any of the reference batches.
inline Recipe reference_recipe(const std::filesystem::path& model) {
  Recipe recipe;
  recipe.model.path = model.string();
  recipe.model.dtype = DType::f32;
  recipe.model.dropout = 0;  // the references were made without
  recipe.data.max_length = 17;
  recipe.data.max_target_length = 11;
  recipe.data.eval_file = {"eval.jsonl"};
  recipe.training.per_device_train_batch_size = 4;
  recipe.training.per_device_eval_batch_size = 4;
  return recipe;
}

inline std::vector<float> values_of(const SourceTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  tensor.read(0, tensor.elements(), DType::f32, values.data());
  return values;
}

// ||a - b|| / ||b||
inline double relative_difference(const std::vector<float>& a, const std::vector<float>& b) {
  double difference = 0;
  double norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    double d = static_cast<double>(a[i]) - static_cast<double>(b[i]);
    difference += d * d;
    norm += static_cast<double>(b[i]) * static_cast<double>(b[i]);
  }
  return std::sqrt(difference) / std::max(std::sqrt(norm), 1e-30);
}

}  // namespace snug
