// Writing and reading the ecosystem's folders.
#include "train/output.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>

#include "base/error.h"
#include "compile/phases.h"
#include "io/atomic_file.h"
#include "io/json.h"
#include "text/tokenizer/tokenizer.h"
#include "train/shards.h"
#include "train/weights.h"

namespace snug {
namespace {

constexpr const char* kAdapterWeights = "adapter_model.safetensors";
constexpr const char* kAdapterConfig = "adapter_config.json";
constexpr const char* kModelConfig = "config.json";

// PEFT matches names and suffixes as snug does; "all-linear" is written out, as the suffixes of all modules.
std::vector<std::string> targets_for_peft(const LoraSection& lora, const Plan& plan) {
  const std::vector<std::string>& targets = lora.target_modules;
  if (std::find(targets.begin(), targets.end(), "all-linear") == targets.end()) {
    return targets;
  }
  std::set<std::string> suffixes;
  for (const StoredTensor& tensor : stored_tensors(plan, Role::adapters, true)) {
    std::string module = tensor.name.substr(0, tensor.name.rfind(".lora_"));
    suffixes.insert(module.substr(module.rfind('.') + 1));
  }
  return {suffixes.begin(), suffixes.end()};
}

std::vector<SafetensorsWriter::Entry> entries_of(const std::vector<StoredTensor>& tensors) {
  std::vector<SafetensorsWriter::Entry> entries;
  for (const StoredTensor& tensor : tensors) {
    entries.push_back({tensor.name, tensor.dtype, tensor.shape});
  }
  return entries;
}

// The files of a model's folder that go along with its weights as they are.
std::vector<std::string> copied_files(const std::filesystem::path& source) {
  std::vector<std::string> names = text_file_names();
  std::erase_if(names, [&](const std::string& name) {
    return name == kModelConfig || !std::filesystem::exists(source / name);
  });
  return names;
}

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

void save_adapter(Executor& executor, const Recipe& recipe, const ModelSpec& spec,
                  const std::filesystem::path& folder) {
  const LoraSection& lora = *recipe.lora;
  std::vector<StoredTensor> tensors = stored_tensors(executor.plan(), Role::adapters, true);
  SafetensorsWriter writer(folder / kAdapterWeights, entries_of(tensors));
  for (const StoredTensor& tensor : tensors) {
    save_tensor(executor, tensor, writer);
  }
  writer.finish();
  Json config = {{"peft_type", "LORA"},
                 {"task_type", spec.has_encoder() ? "SEQ_2_SEQ_LM" : "CAUSAL_LM"},
                 {"base_model_name_or_path", recipe.model.path},
                 {"r", lora.r},
                 {"lora_alpha", lora.lora_alpha},
                 {"lora_dropout", lora.lora_dropout},
                 {"target_modules", targets_for_peft(lora, executor.plan())},
                 {"use_rslora", lora.use_rslora},
                 {"bias", "none"},
                 {"fan_in_fan_out", false},
                 {"init_lora_weights", true},
                 {"modules_to_save", nullptr},
                 {"inference_mode", true}};
  write_file_atomically(folder / kAdapterConfig, config.dump(2) + "\n");
}

void save_model(Executor& executor, const std::filesystem::path& source,
                const std::filesystem::path& folder) {
  std::vector<StoredTensor> tensors = stored_tensors(executor.plan(), Role::base_weights, false);
  write_shards(folder, entries_of(tensors),
               [&](size_t i, SafetensorsWriter& writer) { save_tensor(executor, tensors[i], writer); });
  Json config = read_json(source / kModelConfig);
  const PhasePlan& load = executor.plan().phase(kLoadPhase);
  auto weight = std::find_if(load.program.buffers.begin(), load.program.buffers.end(),
                             [](const Buffer& buffer) { return !buffer.parts.empty(); });
  config[config.contains("dtype") ? "dtype" : "torch_dtype"] = hugging_face_name(weight->dtype);
  for (const std::string& name : copied_files(source)) {
    write_file_atomically(folder / name, read_text_file(source / name));
  }
  // Last, so that a folder with a config is a whole one.
  write_file_atomically(folder / kModelConfig, config.dump(2) + "\n");
}

std::vector<PlannedFile> result_files(const Plan& plan, const Recipe& recipe,
                                      const std::filesystem::path& source) {
  constexpr int64_t kConfigBytes = 4 << 10;
  if (recipe.lora) {
    auto tensors = entries_of(stored_tensors(plan, Role::adapters, true));
    return {{kAdapterWeights, file_bytes(tensors)}, {kAdapterConfig, kConfigBytes}};
  }
  std::vector<PlannedFile> files = shard_files(entries_of(stored_tensors(plan, Role::base_weights, false)));
  for (const std::string& name : copied_files(source)) {
    files.push_back({name, static_cast<int64_t>(std::filesystem::file_size(source / name))});
  }
  auto config_bytes = static_cast<int64_t>(std::filesystem::file_size(source / kModelConfig));
  files.push_back({kModelConfig, config_bytes + kConfigBytes});
  return files;
}

LoraSection read_adapter_config(const std::filesystem::path& folder) {
  std::filesystem::path file = folder / kAdapterConfig;
  std::string path = file.string();
  if (!std::filesystem::exists(file)) {
    throw bad_input(
        fmt::format("{}: no adapter_config.json there; an adapter is a PEFT folder with "
                    "adapter_config.json and adapter_model.safetensors",
                    folder.string()));
  }
  Json config = read_json(file);
  if (json_string(config, "peft_type", "", path) != "LORA") {
    throw bad_input(fmt::format("{}: peft_type is \"{}\"; snug reads LORA adapters", path,
                                json_string(config, "peft_type", "", path)));
  }
  for (const char* key : {"use_dora", "lora_bias", "fan_in_fan_out"}) {
    if (json_bool(config, key, false, path)) {
      throw bad_input(fmt::format("{}: \"{}\" is true, which snug does not support", path, key));
    }
  }
  for (const char* key : {"rank_pattern", "alpha_pattern", "modules_to_save", "layers_to_transform"}) {
    auto found = config.find(key);
    if (found != config.end() && !found->is_null() && !found->empty()) {
      throw bad_input(fmt::format("{}: \"{}\" is used, which snug does not support", path, key));
    }
  }
  LoraSection lora;
  lora.r = json_integer(config, "r", path);
  lora.lora_alpha = json_number(config, "lora_alpha", static_cast<double>(lora.r), path);
  lora.lora_dropout = json_number(config, "lora_dropout", 0, path);
  lora.use_rslora = json_bool(config, "use_rslora", false, path);
  if (lora.r <= 0) {
    throw bad_input(fmt::format("{}: \"r\" is {}: expected at least 1", path, lora.r));
  }
  auto targets = config.find("target_modules");
  if (targets != config.end() && targets->is_string()) {
    lora.target_modules = {targets->get<std::string>()};
  } else if (targets != config.end() && targets->is_array()) {
    lora.target_modules.clear();
    for (const Json& target : *targets) {
      if (!target.is_string()) {
        throw bad_input(fmt::format("{}: \"target_modules\" must list names", path));
      }
      lora.target_modules.push_back(target.get<std::string>());
    }
  }
  if (lora.target_modules.empty()) {
    throw bad_input(fmt::format("{}: \"target_modules\" is missing or empty", path));
  }
  return lora;
}

}  // namespace snug
