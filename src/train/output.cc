// Writing and reading the ecosystem's folders.
#include "train/output.h"

#include <fmt/format.h>

#include <algorithm>

#include "compile/phases.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "train/shards.h"
#include "train/weights.h"

namespace snug {
namespace {

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

void save_model(Executor& executor, const std::filesystem::path& source,
                const std::filesystem::path& folder) {
  std::vector<StoredTensor> tensors = stored_tensors(executor.plan(), Role::base_weights, false);
  write_shards(folder, entries_of(tensors),
               [&](size_t i, SafetensorsWriter& writer) { save_tensor(executor, tensors[i], writer); });
  Json config = read_json(source / "config.json");
  const PhasePlan& load = executor.plan().phase(kLoadPhase);
  auto weight = std::find_if(load.program.buffers.begin(), load.program.buffers.end(),
                             [](const Buffer& buffer) { return !buffer.parts.empty(); });
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = hugging_face_name(weight->dtype);
  for (const char* name : {"tokenizer.json", "tokenizer_config.json", "special_tokens_map.json",
                           "generation_config.json", "tokenizer.model", "chat_template.jinja"}) {
    std::error_code same;
    bool is_source = std::filesystem::equivalent(source, folder, same);
    if (std::filesystem::exists(source / name) && !is_source) {
      write_file_atomically(folder / name, read_text_file(source / name));
    }
  }
  // Last, so that a folder with a config is a whole one.
  write_file_atomically(folder / "config.json", config.dump(2) + "\n");
}

}  // namespace snug
