// Joining A by rows and B by columns, module by module.
#include "train/stacked_adapter.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>

#include "compile/adapters.h"
#include "train/adapter_files.h"
#include "train/shards.h"
#include "train/weights.h"

namespace snug {
namespace {

constexpr std::string_view kA = ".lora_A.weight";

bool is_a(const std::string& tensor) {
  return tensor.ends_with(kA);
}

std::string module_in(const std::string& tensor) {
  return tensor.substr(kAdapterPrefix.size(), tensor.rfind(".lora_") - kAdapterPrefix.size());
}

// A tensor of the whole: one of those below, one that is trained, or both.
struct Joined {
  std::optional<StoredTensor> frozen;
  std::optional<StoredTensor> trained;

  std::vector<int64_t> shape() const {
    std::vector<int64_t> shape = (frozen ? frozen : trained)->shape;
    if (frozen && trained) {
      size_t axis = is_a(frozen->name) ? 0 : 1;
      shape[axis] += trained->shape[axis];
    }
    return shape;
  }
};

// By the file's name for it.
std::map<std::string, Joined> joined_tensors(const Plan& plan) {
  std::map<std::string, Joined> all;
  for (StoredTensor& tensor : stored_tensors(plan, Role::frozen_adapters, false)) {
    std::string name = tensor.name;
    all[name].frozen = std::move(tensor);
  }
  for (StoredTensor& tensor : stored_tensors(plan, Role::adapters, true)) {
    std::string name = tensor.name;
    all[name].trained = std::move(tensor);
  }
  return all;
}

std::vector<SafetensorsWriter::Entry> entries_of(const std::map<std::string, Joined>& tensors) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const auto& [name, tensor] : tensors) {
    entries.push_back({name, DType::f32, tensor.shape()});
  }
  return entries;
}

std::vector<float> scaled(std::vector<float> values, float scale) {
  for (float& value : values) {
    value *= scale;
  }
  return values;
}

std::vector<float> trained_values(BufferReader& reader, const StoredTensor& tensor, float scale) {
  std::vector<std::byte> bytes;
  read_tensor(reader, tensor, [&](std::span<const std::byte> piece) {
    bytes.insert(bytes.end(), piece.begin(), piece.end());
  });
  std::vector<float> values(static_cast<size_t>(tensor.elements));
  convert(tensor.dtype, bytes.data(), DType::f32, values.data(), tensor.elements);
  return scaled(std::move(values), scale);
}

// A: the rows of one below those of the other. B: each row of one behind that of the other.
std::vector<float> join(const std::vector<float>& a, const std::vector<float>& b, size_t rows) {
  std::vector<float> both;
  both.reserve(a.size() + b.size());
  size_t a_columns = a.size() / rows;
  size_t b_columns = b.size() / rows;
  for (size_t row = 0; row < rows; ++row) {
    both.insert(both.end(), a.data() + row * a_columns, a.data() + (row + 1) * a_columns);
    both.insert(both.end(), b.data() + row * b_columns, b.data() + (row + 1) * b_columns);
  }
  return both;
}

// The rank that most modules have is r; the others' are patterns.
LoraSection settings_of(const std::map<std::string, Joined>& tensors) {
  std::map<int64_t, int64_t> count;
  for (const auto& [name, tensor] : tensors) {
    count[tensor.shape()[0]] += is_a(name) ? 1 : 0;
  }
  LoraSection lora;
  lora.r = std::max_element(count.begin(), count.end(), [](const auto& a, const auto& b) {
             return a.second < b.second;
           })->first;
  lora.lora_alpha = static_cast<double>(lora.r);
  lora.target_modules.clear();
  for (const auto& [name, tensor] : tensors) {
    if (!is_a(name)) {
      continue;
    }
    std::string module = module_in(name);
    lora.target_modules.push_back(module);
    if (int64_t rank = tensor.shape()[0]; rank != lora.r) {
      lora.rank_pattern.emplace_back(module, rank);
      lora.alpha_pattern.emplace_back(module, static_cast<double>(rank));
    }
  }
  return lora;
}

}  // namespace

void save_stacked_adapter(BufferReader& reader, const TrainInputs& inputs,
                          const std::filesystem::path& folder) {
  std::map<std::string, Joined> tensors = joined_tensors(reader.plan());
  TensorSource below = open_adapter(inputs.frozen_adapter);
  LoraSection below_settings = read_adapter_config(inputs.frozen_adapter);
  AdapterShapes below_shapes(below_settings);
  AdapterShapes trained_shapes(*inputs.recipe.lora);
  SafetensorsWriter writer(folder / kAdapterWeightsFile, entries_of(tensors));
  for (const auto& [name, tensor] : tensors) {
    std::string module = module_in(name);
    std::vector<float> a;
    std::vector<float> b;
    if (tensor.frozen) {
      a = scaled(values_of(below.find(name)), is_a(name) ? 1 : below_shapes.scale_of(module));
    }
    if (tensor.trained) {
      b = trained_values(reader, *tensor.trained, is_a(name) ? 1 : trained_shapes.scale_of(module));
    }
    size_t rows = is_a(name) ? 1 : static_cast<size_t>(tensor.shape()[0]);
    writer.write(std::as_bytes(std::span<const float>(join(a, b, rows))));
  }
  writer.finish();
  LoraSection settings = settings_of(tensors);
  settings.lora_dropout = inputs.recipe.lora->lora_dropout;
  write_adapter_config(
      adapter_config(settings, Json(settings.target_modules), inputs.recipe.model.path, inputs.model.spec),
      folder);
}

std::vector<PlannedFile> stacked_adapter_files(const Plan& plan) {
  constexpr int64_t kConfigBytes = 256 << 10;  // it names every module
  return {{kAdapterWeightsFile, file_bytes(entries_of(joined_tensors(plan)))},
          {kAdapterConfigFile, kConfigBytes}};
}

}  // namespace snug
