// Which weights become codes.
#include "compile/coded_weights.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "compile/adapters.h"
#include "program/layer_values.h"
#include "recipe/choices.h"

namespace snug {
namespace {

Format format_of(Quantization quantization) {
  switch (quantization) {
    case Quantization::nf4:
      return kNf4;
    case Quantization::nf4_double:
      return kNf4Double;
    case Quantization::fp4:
      return kFp4;
    case Quantization::int8:
      return kInt8;
    case Quantization::none:
      break;
  }
  return {};
}

// Nothing for a tensor that stays plain.
std::optional<Format> format_of(const TensorPart& part, const Format& chosen, const ModelSpec& spec) {
  std::string module = module_of(part);
  std::string last = module.substr(module.rfind('.') + 1);
  bool stays =
      std::find(spec.uncoded_modules.begin(), spec.uncoded_modules.end(), last) != spec.uncoded_modules.end();
  if (spec.stored_codes && (spec.stored_codes->tensors || !stays)) {
    return stored_format(*spec.stored_codes, part, module);
  }
  return stays ? std::nullopt : std::optional(chosen);
}

int last_layer_of(const Program& forward) {
  int last = kNoLayer;
  for (const Op& op : forward.ops) {
    last = std::max(last, op.layer);
  }
  return last;
}

// In fp8 inputs are rounded as well as weights. Most of what that does to a trained model's loss comes from
// attention's products, a small part of all, and from the last layer, behind which nothing evens it out
// (docs/decisions/0037-fp8.md): they stay whole.
bool may_be_coded(const Program& forward, const Op& linear, const Format& chosen, int last_layer) {
  return chosen.coding != Coding::fp8 ||
         (linear.layer != last_layer && is_mlp_product(forward.buffer(linear.outputs[0]).name));
}

// Nothing unless all tensors of the weight have one.
std::optional<Format> common_format(const Buffer& weight, const Format& chosen, const ModelSpec& spec) {
  std::optional<Format> common;
  for (const TensorPart& part : weight.parts) {
    std::optional<Format> format = format_of(part, chosen, spec);
    if (!format || (common && *common != *format)) {
      return std::nullopt;
    }
    common = format;
  }
  return common;
}

}  // namespace

Format weight_format(Quantization quantization, const ModelSpec& spec) {
  if (!spec.stored_codes) {
    return format_of(quantization);
  }
  const Format& stored = spec.stored_codes->format;
  Format asked = format_of(quantization);
  if (asked.is_coded() && (asked.coding != stored.coding || asked.nested != stored.nested)) {
    throw bad_input(fmt::format(
        "model.quantization is {}, but the weights are {} already (\"quantization_config\" in {}): leave it "
        "out to take them as they are, or take the original, unquantised model",
        name_of(quantization), name_of(stored), spec.source));
  }
  return stored;
}

Format weight_format(const ModelSection& model, const ModelSpec& spec) {
  if (model.compute == Compute::dtype) {
    return weight_format(model.quantization, spec);
  }
  if (model.quantization != Quantization::none) {
    throw bad_input(fmt::format(
        "model.compute is fp8 and model.quantization is {}, but a weight is stored in one format: leave "
        "one of them out",
        name_of(model.quantization)));
  }
  if (spec.stored_codes) {
    throw bad_input(
        fmt::format("model.compute is fp8, but the weights are {} already (\"quantization_config\" in {}): "
                    "leave it out to take "
                    "them as they are, or take the original, unquantised model",
                    name_of(spec.stored_codes->format), spec.source));
  }
  return kFp8;
}

Program code_weights(Program forward, const Format& chosen, const ModelSpec& spec) {
  if (!chosen.is_coded()) {
    return forward;
  }
  int last_layer = last_layer_of(forward);
  for (const Op& op : forward.ops) {
    if (op.kind != OpKind::linear || op.layer == kNoLayer) {
      continue;
    }
    Buffer& weight = forward.buffer(op.inputs[1]);
    if (!is_model_parameter(weight) || weight.format.is_coded() ||
        !may_be_coded(forward, op, chosen, last_layer)) {
      continue;
    }
    if (std::optional<Format> format = common_format(weight, chosen, spec)) {
      DType dtype = weight.dtype();
      weight.format = *format;
      weight.format.dtype = dtype;
    }
  }
  return forward;
}

}  // namespace snug
