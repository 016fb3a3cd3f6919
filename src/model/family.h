// A model family: how to read its config and how to write its forward program. One row, one file.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "io/json.h"
#include "model/model_spec.h"

namespace snug {

// A name in "architectures", and the "model_type" that goes with it.
struct Architecture {
  std::string_view name;
  std::string_view model_type;
};

struct Family {
  std::string_view name;
  std::vector<Architecture> architectures;
  void (*read_config)(const Json& config, const std::string& path, ModelSpec& spec);
  Program (*build_forward)(const ModelSpec& spec, const ForwardOptions& options);
};

extern const Family kLlamaFamily;
extern const Family kMistralFamily;
extern const Family kQwen2Family;
extern const Family kQwen3Family;
extern const Family kPhi3Family;
extern const Family kT5Family;

const std::vector<const Family*>& families();

}  // namespace snug
