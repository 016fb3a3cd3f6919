// From config.json to a family, and from a family to programs.
#include "model/model_spec.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/check.h"
#include "base/error.h"
#include "io/printable.h"
#include "model/family.h"

namespace snug {
namespace {

std::string supported_architectures() {
  std::vector<std::string_view> names;
  for (const Family* family : families()) {
    names.insert(names.end(), family->architectures.begin(), family->architectures.end());
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

const Family& family_of_architecture(const std::string& architecture, const std::string& path) {
  for (const Family* family : families()) {
    const auto& known = family->architectures;
    if (std::find(known.begin(), known.end(), architecture) != known.end()) {
      return *family;
    }
  }
  throw bad_input(fmt::format("{}: architecture \"{}\" is not supported; supported: {}", path, architecture,
                              supported_architectures()));
}

const Family& family_named(const std::string& name) {
  for (const Family* family : families()) {
    if (family->name == name) {
      return *family;
    }
  }
  SNUG_CHECK(false, "no family is named " + name);
}

std::string architecture_of(const Json& config, const std::string& path) {
  auto found = config.find("architectures");
  if (found == config.end() || !found->is_array() || found->empty() || !found->front().is_string()) {
    throw bad_input(
        fmt::format("{}: \"architectures\" is missing or is no list of names; is this a model's "
                    "config.json? Supported: {}",
                    path, supported_architectures()));
  }
  return found->front().get<std::string>();
}

std::optional<DType> saved_dtype(const Json& config, const std::string& path) {
  for (const char* key : {"dtype", "torch_dtype"}) {
    std::string name = json_string(config, key, "", path);
    if (name.empty()) {
      continue;
    }
    std::optional<DType> dtype = parse_dtype(name);
    if (dtype != DType::f32 && dtype != DType::bf16 && dtype != DType::f16) {
      throw bad_input(
          fmt::format("{}: \"{}\" is {}; snug computes in float32, bfloat16 or float16: write one of them "
                      "there, and weights of another floating type are read as that",
                      path, key, in_quotes(name)));
    }
    return dtype;
  }
  return std::nullopt;
}

}  // namespace

const std::vector<const Family*>& families() {
  static const std::vector<const Family*> kFamilies = {&kLlamaFamily, &kMistralFamily, &kQwen2Family,
                                                       &kQwen3Family, &kPhi3Family,    &kT5Family};
  return kFamilies;
}

ModelSpec parse_model_config(std::string_view text, const std::string& path) {
  Json config = parse_json(text, path);
  if (!config.is_object()) {
    throw bad_input(fmt::format("{}: expected a JSON object with the model's config", path));
  }
  ModelSpec spec;
  spec.source = path;
  spec.architecture = architecture_of(config, path);
  const Family& family = family_of_architecture(spec.architecture, path);
  if (config.contains("quantization_config")) {
    throw bad_input(
        fmt::format("{}: the checkpoint is quantised (\"quantization_config\"); snug reads fp32, bf16 "
                    "and fp16 weights: use the original, unquantised model",
                    path));
  }
  spec.family = family.name;
  spec.dtype = saved_dtype(config, path);
  family.read_config(config, path, spec);
  return spec;
}

Program build_forward(const ModelSpec& spec, const ForwardOptions& options) {
  return family_named(spec.family).build_forward(spec, options);
}

int64_t count_parameters(const Program& program) {
  int64_t count = 0;
  for (const Buffer& buffer : program.buffers) {
    if (buffer.role == Role::base_weights && !buffer.parts.empty()) {
      count += buffer.max_elements();
    }
  }
  return count;
}

int64_t count_trainable(const Program& program) {
  int64_t count = 0;
  for (const Buffer& buffer : program.buffers) {
    count += buffer.trainable ? buffer.max_elements() : 0;
  }
  return count;
}

}  // namespace snug
