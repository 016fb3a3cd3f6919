// Writing a model's folder.
#include "train/output.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/phases.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "text/tokenizer/tokenizer.h"
#include "train/shards.h"
#include "train/weights.h"

namespace snug {
namespace {

constexpr const char* kModelConfig = "config.json";

std::string hugging_face_name(DType dtype) {
  switch (dtype) {
    case DType::bf16:
      return "bfloat16";
    case DType::f16:
      return "float16";
    default:
      return "float32";
  }
}

}  // namespace

std::vector<std::string> copied_model_files(const std::filesystem::path& source) {
  std::vector<std::string> names = text_file_names();
  std::erase_if(names, [&](const std::string& name) {
    return name == kModelConfig || !std::filesystem::exists(source / name);
  });
  return names;
}

void save_model(BufferReader& reader, const std::filesystem::path& source,
                const std::filesystem::path& folder, const BytesObserver& observer) {
  std::vector<StoredTensor> tensors = stored_tensors(reader.plan(), Role::base_weights, false);
  TensorSaver saver(reader, tensors, observer);
  write_shards(folder, entries_of(tensors),
               [&](size_t tensor, SafetensorsWriter& writer) { saver.save(tensor, writer); });
  Json config = read_json(source / kModelConfig);
  const PhasePlan& load = reader.plan().phase(kLoadPhase);
  auto weight = std::find_if(load.program.buffers.begin(), load.program.buffers.end(), is_model_parameter);
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = hugging_face_name(weight->dtype());
  for (const std::string& name : copied_model_files(source)) {
    write_file_atomically(folder / name, read_text_file(source / name));
  }
  // Last, so that a folder with a config is a whole one.
  write_file_atomically(folder / kModelConfig, config.dump(2) + "\n");
}

std::vector<PlannedFile> model_files(const Plan& plan, const std::filesystem::path& source) {
  constexpr int64_t kConfigBytes = 4 << 10;
  std::vector<PlannedFile> files = shard_files(entries_of(stored_tensors(plan, Role::base_weights, false)));
  for (const std::string& name : copied_model_files(source)) {
    files.push_back({name, static_cast<int64_t>(std::filesystem::file_size(source / name))});
  }
  auto config_bytes = static_cast<int64_t>(std::filesystem::file_size(source / kModelConfig));
  files.push_back({kModelConfig, config_bytes + kConfigBytes});
  return files;
}

}  // namespace snug
