// From config.json to a family, and from a family to programs.
#include "model/model_spec.h"

#include <fmt/format.h>

#include "base/check.h"
#include "base/error.h"
#include "base/sizes.h"
#include "io/printable.h"
#include "model/config_keys.h"
#include "model/family.h"

namespace snug {
namespace {

std::string supported_architectures() {
  std::vector<std::string_view> names;
  for (const Family* family : families()) {
    for (const Architecture& architecture : family->architectures) {
      names.push_back(architecture.name);
    }
  }
  return fmt::format("{}", fmt::join(names, ", "));
}

struct Choice {
  const Family* family = nullptr;
  const Architecture* architecture = nullptr;
};

// The first architecture of any family for which `is_it` holds.
template <typename Predicate>
Choice find_architecture(Predicate is_it) {
  for (const Family* family : families()) {
    for (const Architecture& architecture : family->architectures) {
      if (is_it(architecture)) {
        return {family, &architecture};
      }
    }
  }
  return {};
}

const Family& family_named(const std::string& name) {
  for (const Family* family : families()) {
    if (family->name == name) {
      return *family;
    }
  }
  SNUG_CHECK(false, "no family is named " + name);
}

// By "architectures"; a config without it may still say its "model_type".
Choice choose_family(const Json& config, const std::string& path) {
  std::string model_type = json_string(config, "model_type", "", path);
  Choice by_type = find_architecture(
      [&](const Architecture& architecture) { return architecture.model_type == model_type; });
  auto names = config.find("architectures");
  if (names == config.end() || names->is_null() || (names->is_array() && names->empty())) {
    if (by_type.family == nullptr) {
      throw bad_input(fmt::format(
          "{}: neither \"architectures\" nor \"model_type\" ({}) names a model that snug knows; is this a "
          "model's config.json? Supported: {}",
          path, in_quotes(model_type, 60), supported_architectures()));
    }
    return by_type;
  }
  if (!names->is_array() || !names->front().is_string()) {
    throw bad_input(fmt::format("{}: \"architectures\" is no list of names; supported: {}", path,
                                supported_architectures()));
  }
  const auto& name = names->front().get_ref<const std::string&>();
  Choice by_name =
      find_architecture([&](const Architecture& architecture) { return architecture.name == name; });
  if (by_name.family == nullptr) {
    throw bad_input(fmt::format("{}: architecture {} is not supported; supported: {}", path,
                                in_quotes(name, 60), supported_architectures()));
  }
  if (by_type.family != nullptr && by_type.family != by_name.family) {
    throw bad_input(
        fmt::format("{}: \"architectures\" says {}, but \"model_type\" says {}; correct one of them", path,
                    in_quotes(name, 60), in_quotes(model_type, 60)));
  }
  return by_name;
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
  auto [family, architecture] = choose_family(config, path);
  spec.architecture = architecture->name;
  spec.stored_codes = read_stored_codes(config, path);
  spec.family = family->name;
  spec.dtype = saved_dtype(config, path);
  family->read_config(with_defaults(config, architecture->model_type, path), path, spec);
  return spec;
}

Program build_forward(const ModelSpec& spec, const ForwardOptions& options) {
  return family_named(spec.family).build_forward(spec, options);
}

int64_t count_parameters(const Program& program) {
  int64_t count = 0;
  for (const Buffer& buffer : program.buffers) {
    if (is_model_parameter(buffer)) {
      count = add_sizes(count, buffer.max_elements(), "the model");
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
