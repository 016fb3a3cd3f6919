// quantization_config, and the tensors behind it.
#include "model/stored_codes.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "io/printable.h"
#include "io/tensor_source.h"
#include "model/model_spec.h"

namespace snug {
namespace {

constexpr const char* kKey = "quantization_config";

Error foreign_method(const std::string& method, const std::string& path) {
  return bad_input(
      fmt::format("{}: the checkpoint is quantised{} (\"{}\"); snug reads what bitsandbytes quantised, and "
                  "fp32, bf16 and "
                  "fp16 weights: use the original, unquantised model, which model.quantization stores in 4 "
                  "or 8 bits while "
                  "it is loaded",
                  path, method.empty() ? "" : " by " + printable(method), kKey));
}

std::vector<std::string> names_in(const Json& section, const char* key, const std::string& where) {
  std::vector<std::string> names;
  auto found = section.find(key);
  if (found == section.end() || found->is_null()) {
    return names;
  }
  bool is_list = found->is_array() &&
                 std::all_of(found->begin(), found->end(), [](const Json& n) { return n.is_string(); });
  if (!is_list) {
    throw bad_input(fmt::format("{}: \"{}\" is {}; a list of modules is wanted", where, key,
                                printable(found->dump(), 60)));
  }
  return found->get<std::vector<std::string>>();
}

// As Hugging Face matches them: a module, what is within it, or the last part of a name.
bool matches(const std::string& module, const std::string& name) {
  return module == name || module.starts_with(name + ".") || module.ends_with("." + name) ||
         module.find("." + name + ".") != std::string::npos;
}

}  // namespace

std::optional<StoredCodes> read_stored_codes(const Json& config, const std::string& path) {
  auto found = config.find(kKey);
  if (found == config.end() || found->is_null()) {
    return std::nullopt;
  }
  if (!found->is_object()) {
    throw foreign_method("", path);
  }
  const Json& section = *found;
  std::string where = fmt::format("{}: \"{}\"", path, kKey);
  bool four = json_bool(section, "load_in_4bit", false, where);
  bool eight = json_bool(section, "load_in_8bit", false, where);
  // Configs from before there were other methods do not name it.
  std::string method = json_string(section, "quant_method", four || eight ? "bitsandbytes" : "", where);
  if (method != "bitsandbytes") {
    throw foreign_method(method, path);
  }
  if (four == eight) {
    throw bad_input(
        fmt::format("{}: \"load_in_4bit\" and \"load_in_8bit\" are both {}; one of them says how "
                    "bitsandbytes quantised the weights",
                    where, four));
  }
  StoredCodes codes{.format = kInt8, .skipped = names_in(section, "llm_int8_skip_modules", where)};
  if (four) {
    std::string type = json_string(section, "bnb_4bit_quant_type", "fp4", where);
    if (type != "nf4" && type != "fp4") {
      throw bad_input(
          fmt::format("{}: \"bnb_4bit_quant_type\" is {}; it must be nf4 or fp4", where, in_quotes(type)));
    }
    codes.format = type == "nf4" ? kNf4 : kFp4;
    codes.format.nested = json_bool(section, "bnb_4bit_use_double_quant", false, where);
  }
  return codes;
}

void settle_codes(const std::filesystem::path& folder, ModelSpec& spec) {
  if (!spec.stored_codes || !holds_tensors(folder)) {
    return;
  }
  TensorSource source = open_tensors(folder);
  auto& tensors = spec.stored_codes->tensors.emplace();
  for (const std::string& name : source.names()) {
    const CodedTensor* coded = source.find(name).coded();
    if (coded == nullptr) {
      continue;
    }
    const Format& said = spec.stored_codes->format;
    if (coded->format.coding != said.coding || coded->format.nested != said.nested) {
      throw bad_input(
          fmt::format("{}: \"{}\" says {}, but tensor {} in {} is {}: config and weights are of "
                      "different checkpoints",
                      spec.source, kKey, name_of(said), in_quotes(name), source.find(name).file(),
                      name_of(coded->format)));
    }
    tensors.emplace(name, coded->format);
  }
  if (tensors.empty()) {
    throw bad_input(
        fmt::format("{}: \"{}\" says {}, but no tensor in {} is quantised: remove the key if the "
                    "weights are not, or get them again",
                    spec.source, kKey, name_of(spec.stored_codes->format), folder.string()));
  }
}

std::optional<Format> stored_format(const StoredCodes& codes, const TensorPart& part,
                                    const std::string& module) {
  if (codes.tensors) {
    for (const std::string& name : part.names) {
      if (auto found = codes.tensors->find(name); found != codes.tensors->end()) {
        return found->second;
      }
    }
    return std::nullopt;
  }
  bool skipped = std::any_of(codes.skipped.begin(), codes.skipped.end(),
                             [&](const std::string& name) { return matches(module, name); });
  return skipped ? std::nullopt : std::optional(codes.format);
}

}  // namespace snug
