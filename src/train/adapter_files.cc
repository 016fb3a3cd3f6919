// Reading and writing what PEFT reads and writes.
#include "train/adapter_files.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "base/error.h"
#include "compile/adapters.h"
#include "compile/module_names.h"
#include "compile/phases.h"
#include "io/atomic_file.h"
#include "io/fingerprint.h"
#include "io/json.h"
#include "io/printable.h"
#include "program/names.h"
#include "recipe/choices.h"
#include "train/peft_defaults.h"
#include "train/shards.h"
#include "train/weights.h"

namespace snug {
namespace {

// What an adapter's file calls the bias of a module of the model.
std::string bias_name(const std::string& module, bool is_adapted) {
  return fmt::format("{}{}{}.bias", kAdapterPrefix, module, is_adapted ? ".base_layer" : "");
}

// Biases that are trained beside the adapters: tensors of the model, kept in the adapter's file.
std::vector<StoredTensor> trained_biases(const Plan& plan) {
  std::set<std::string> buffers;
  for (const Buffer& buffer : plan.phase(kLoadPhase).program.buffers) {
    if (buffer.role == Role::base_weights && buffer.trainable) {
      buffers.insert(buffer.name);
      buffers.insert(master_name(buffer.name));
    }
  }
  std::vector<StoredTensor> tensors = stored_tensors(plan, Role::base_weights, true);
  std::erase_if(tensors, [&](const StoredTensor& tensor) { return !buffers.contains(tensor.buffer); });
  return tensors;
}

std::string module_named(const std::string& tensor, std::string_view from) {
  std::string module = tensor.substr(0, tensor.rfind(from));
  return module.starts_with(kAdapterPrefix) ? module.substr(kAdapterPrefix.size()) : module;
}

std::set<std::string> adapted_modules(const Plan& plan) {
  std::set<std::string> modules;
  for (const StoredTensor& tensor : stored_tensors(plan, Role::adapters, true)) {
    modules.insert(module_named(tensor.name, ".lora_"));
  }
  return modules;
}

// "all-linear" is written out, as the last names of all modules; a regular expression is a string to PEFT.
Json names_for_peft(const std::vector<std::string>& names) {
  return is_expression(names) ? Json(names[0]) : Json(names);
}

Json targets_for_peft(const LoraSection& lora, const std::set<std::string>& adapted) {
  const std::vector<std::string>& targets = lora.target_modules;
  if (std::find(targets.begin(), targets.end(), "all-linear") == targets.end()) {
    return names_for_peft(targets);
  }
  std::set<std::string> last_names;
  for (const std::string& module : adapted) {
    last_names.insert(module.substr(module.rfind('.') + 1));
  }
  return Json(std::vector<std::string>(last_names.begin(), last_names.end()));
}

template <typename Value>
Json patterns_json(const std::vector<std::pair<std::string, Value>>& patterns) {
  Json object = Json::object();
  for (const auto& [pattern, value] : patterns) {
    object[pattern] = value;
  }
  return object;
}

// The ways to begin that leave the model's own weights as they are: what was learned says it all.
bool is_plain_start(const Json& value) {
  return value.is_boolean() || value == "gaussian" || value == "eva" || value == "orthogonal";
}

// Whether a key of this value can be passed over: it is read elsewhere, it says nothing, or PEFT's default.
bool is_understood(const std::string& key, const Json& value, const Json& defaults) {
  constexpr std::array kRead = {"r",          "lora_alpha",    "lora_dropout",    "target_modules",
                                "use_rslora", "bias",          "exclude_modules", "rank_pattern",
                                "peft_type",  "alpha_pattern", "lora_dropout"};
  constexpr std::array kAboutTheFile = {
      "task_type", "base_model_name_or_path", "revision", "inference_mode", "auto_mapping", "peft_version"};
  // Each belongs to one value of init_lora_weights, which is looked at itself.
  constexpr std::array kOfTheStart = {"eva_config", "loftq_config", "corda_config", "lora_ga_config"};
  auto is_in = [&](const auto& keys) { return std::find(keys.begin(), keys.end(), key) != keys.end(); };
  if (is_in(kRead) || is_in(kAboutTheFile) || is_in(kOfTheStart)) {
    return true;
  }
  if (key == "init_lora_weights") {
    return is_plain_start(value);
  }
  bool is_nothing =
      value.is_null() || value == false || ((value.is_array() || value.is_object()) && value.empty());
  auto usual = defaults.find(key);
  return is_nothing ? usual == defaults.end() || *usual != true : usual != defaults.end() && *usual == value;
}

void require_understood(const Json& config, const std::string& path) {
  Json defaults = parse_json(lora_config_defaults(), "PEFT's LoraConfig");
  for (const auto& [key, value] : config.items()) {
    if (!is_understood(key, value, defaults)) {
      throw bad_input(fmt::format(
          "{}: {} is {}, which snug does not know: it would read the adapter as another one. Merge it "
          "into its model with PEFT (merge_and_unload) and use that",
          path, in_quotes(key, 60), printable(value.dump(), 80)));
    }
  }
}

// A string, or a list of them; empty where it is absent.
std::vector<std::string> read_names(const Json& config, const char* key, const std::string& path) {
  auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    return {};
  }
  if (found->is_string()) {
    return {found->get<std::string>()};
  }
  std::vector<std::string> names;
  for (const Json& name : *found) {
    if (!found->is_array() || !name.is_string()) {
      throw bad_input(fmt::format("{}: \"{}\" must be a name or list names", path, key));
    }
    names.push_back(name.get<std::string>());
  }
  return names;
}

template <typename Value, typename Read>
std::vector<std::pair<std::string, Value>> read_patterns(const Json& config, const char* key,
                                                         const std::string& path, Read read) {
  std::vector<std::pair<std::string, Value>> patterns;
  auto found = config.find(key);
  if (found == config.end() || found->is_null()) {
    return patterns;
  }
  if (!found->is_object()) {
    throw bad_input(fmt::format("{}: \"{}\" must be an object of patterns and numbers", path, key));
  }
  for (const auto& [pattern, value] : found->items()) {
    patterns.emplace_back(pattern, read(*found, pattern, path));
  }
  return patterns;
}

int64_t rank_key(const Json& config, std::string_view key, const std::string& path) {
  constexpr int64_t kLargestRank = 65536;
  int64_t rank = json_integer(config, key, path);
  if (rank < 1 || rank > kLargestRank) {
    throw bad_input(
        fmt::format("{}: \"{}\" is {}: expected between 1 and {}", path, printable(key), rank, kLargestRank));
  }
  return rank;
}

LoraBias read_bias(const Json& config, const std::string& path) {
  std::string name = json_string(config, "bias", "none", path);
  for (const auto& [known, bias] : kLoraBiases) {
    if (name == known) {
      return bias;
    }
  }
  throw bad_input(
      fmt::format("{}: \"bias\" is {}: expected none, all or lora_only", path, in_quotes(name, 60)));
}

// Every tensor of the file is either an adapter of the plan or one of these biases.
void require_all_used(const TensorSource& tensors, const std::set<std::string>& used,
                      const std::string& source) {
  std::vector<std::string> left;
  for (const std::string& name : tensors.names()) {
    if (!used.contains(name)) {
      left.push_back(printable(name));
    }
  }
  if (!left.empty()) {
    throw bad_input(
        fmt::format("{}: {} of its tensors belong to nothing that adapter_config.json describes and snug "
                    "knows, such as {}: "
                    "without them the adapter would be another one",
                    source, left.size(), left.front()));
  }
}

// The adapters, and the biases that were trained with them under PEFT's names.
std::vector<StoredTensor> saved_tensors(const Plan& plan, const std::set<std::string>& adapted) {
  std::vector<StoredTensor> tensors = stored_tensors(plan, Role::adapters, true);
  for (StoredTensor& bias : trained_biases(plan)) {
    std::string module = module_named(bias.name, ".bias");
    bias.name = bias_name(module, adapted.contains(module));
    tensors.push_back(std::move(bias));
  }
  return tensors;
}

}  // namespace

std::vector<PlannedFile> adapter_files(const Plan& plan) {
  constexpr int64_t kConfigBytes = 16 << 10;
  auto tensors = entries_of(saved_tensors(plan, adapted_modules(plan)));
  return {{kAdapterWeightsFile, file_bytes(tensors)}, {kAdapterConfigFile, kConfigBytes}};
}

void save_adapter(BufferReader& reader, const Recipe& recipe, const ModelSpec& spec,
                  const std::filesystem::path& folder, const BytesObserver& observer) {
  const LoraSection& lora = *recipe.lora;
  std::set<std::string> adapted = adapted_modules(reader.plan());
  std::vector<StoredTensor> tensors = saved_tensors(reader.plan(), adapted);
  SafetensorsWriter writer(folder / kAdapterWeightsFile, entries_of(tensors));
  TensorSaver saver(reader, tensors, observer);
  for (size_t tensor = 0; tensor < tensors.size(); ++tensor) {
    saver.save(tensor, writer);
  }
  writer.finish();
  write_adapter_config(adapter_config(lora, targets_for_peft(lora, adapted), recipe.model.path, spec),
                       folder);
}

Json adapter_config(const LoraSection& lora, const Json& target_modules, const std::string& model_path,
                    const ModelSpec& spec) {
  Json excluded = lora.exclude_modules.empty() ? Json() : names_for_peft(lora.exclude_modules);
  return {{"peft_type", "LORA"},
          {"task_type", spec.has_encoder() ? "SEQ_2_SEQ_LM" : "CAUSAL_LM"},
          {"base_model_name_or_path", model_path},
          {"r", lora.r},
          {"lora_alpha", lora.lora_alpha},
          {"lora_dropout", lora.lora_dropout},
          {"target_modules", target_modules},
          {"exclude_modules", excluded},
          {"rank_pattern", patterns_json(lora.rank_pattern)},
          {"alpha_pattern", patterns_json(lora.alpha_pattern)},
          {"use_rslora", lora.use_rslora},
          {"bias", name_of(lora.bias)},
          {"fan_in_fan_out", false},
          {"init_lora_weights", true},
          {"modules_to_save", nullptr},
          {"inference_mode", true}};
}

void write_adapter_config(const Json& config, const std::filesystem::path& folder) {
  write_file_atomically(folder / kAdapterConfigFile, config.dump(2) + "\n");
}

LoraSection read_adapter_config(const std::filesystem::path& folder) {
  std::filesystem::path file = folder / kAdapterConfigFile;
  std::string path = file.string();
  if (!std::filesystem::exists(file)) {
    throw bad_input(
        fmt::format("{}: no adapter_config.json there; an adapter is a PEFT folder with "
                    "adapter_config.json and adapter_model.safetensors",
                    folder.string()));
  }
  Json config = read_json(file);
  if (json_string(config, "peft_type", "", path) != "LORA") {
    throw bad_input(fmt::format("{}: peft_type is {}; snug reads LORA adapters", path,
                                in_quotes(json_string(config, "peft_type", "", path), 60)));
  }
  require_understood(config, path);
  Json full = parse_json(lora_config_defaults(), "PEFT's LoraConfig");
  full.update(config);
  LoraSection lora;
  lora.r = rank_key(full, "r", path);
  lora.lora_alpha = json_number(full, "lora_alpha", 0, path);
  lora.lora_dropout = json_number(full, "lora_dropout", 0, path);
  lora.use_rslora = json_bool(full, "use_rslora", false, path);
  lora.bias = read_bias(full, path);
  lora.rank_pattern = read_patterns<int64_t>(full, "rank_pattern", path, rank_key);
  lora.alpha_pattern = read_patterns<double>(
      full, "alpha_pattern", path, [](const Json& object, const std::string& key, const std::string& in) {
        return json_number(object, key, 0, in);
      });
  lora.exclude_modules = read_names(full, "exclude_modules", path);
  lora.target_modules = read_names(full, "target_modules", path);
  if (lora.target_modules.empty()) {
    throw bad_input(fmt::format("{}: \"target_modules\" is missing or empty", path));
  }
  return lora;
}

void require_same_adapter(const LoraSection& lora, const std::filesystem::path& folder) {
  LoraSection theirs = read_adapter_config(folder);
  auto require = [&](const Json& ours, const Json& wanted, std::string_view key) {
    if (ours != wanted) {
      throw bad_input(
          fmt::format("lora.{} is {}, but the adapter of lora.start ({}) has {}: write that to go on with it",
                      key, ours.dump(), folder.string(), wanted.dump()));
    }
  };
  require(lora.r, theirs.r, "r");
  require(lora.lora_alpha, theirs.lora_alpha, "lora_alpha");
  require(lora.use_rslora, theirs.use_rslora, "use_rslora");
  require(patterns_json(lora.rank_pattern), patterns_json(theirs.rank_pattern), "rank_pattern");
  require(patterns_json(lora.alpha_pattern), patterns_json(theirs.alpha_pattern), "alpha_pattern");
  require(name_of(lora.bias), name_of(theirs.bias), "bias");
}

void load_adapter(Executor& executor, const std::filesystem::path& folder) {
  TensorSource source = open_adapter(folder);
  const Plan& plan = executor.plan();
  require_tensors(plan, Role::adapters, source, folder.string());
  std::set<std::string> used;
  for (const StoredTensor& tensor : stored_tensors(plan, Role::adapters, true)) {
    used.insert(tensor.name);
  }
  std::map<std::string, std::string> biases;  // the model's name for it -> the file's
  for (const StoredTensor& tensor : trained_biases(plan)) {
    std::string module = module_named(tensor.name, ".bias");
    for (bool is_adapted : {true, false}) {
      std::string name = bias_name(module, is_adapted);
      if (source.contains(name)) {
        biases[tensor.name] = name;
        used.insert(name);
      }
    }
  }
  require_all_used(source, used, folder.string());
  load_tensors(executor, Role::adapters, source);
  load_instead(executor, source, biases);
}

void load_frozen_adapter(Executor& executor, const std::filesystem::path& folder) {
  TensorSource source = open_adapter(folder);
  require_tensors(executor.plan(), Role::frozen_adapters, source, folder.string());
  load_tensors(executor, Role::frozen_adapters, source);
}

TensorSource open_adapter(const std::filesystem::path& folder) {
  return open_tensors(folder / kAdapterWeightsFile);
}

std::vector<float> values_of(const SourceTensor& tensor) {
  std::vector<float> values(static_cast<size_t>(tensor.elements()));
  tensor.read(0, tensor.elements(), DType::f32, values.data());
  return values;
}

std::string adapter_fingerprint(const std::filesystem::path& folder) {
  TensorSource source = open_adapter(folder);
  Fingerprint fingerprint;
  for (const std::string& name : source.names()) {
    std::vector<float> values = values_of(source.find(name));
    fingerprint.add(name);
    fingerprint.add_bytes({reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)});
  }
  return fingerprint.hex();
}

}  // namespace snug
