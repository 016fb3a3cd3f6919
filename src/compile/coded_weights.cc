// Which weights become codes.
#include "compile/coded_weights.h"

#include <algorithm>

#include "compile/adapters.h"
#include "ops/table.h"

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

bool stays_as_it_is(const TensorPart& part, const ModelSpec& spec) {
  std::string module = module_of(part);
  std::string last = module.substr(module.rfind('.') + 1);
  return std::find(spec.uncoded_modules.begin(), spec.uncoded_modules.end(), last) !=
         spec.uncoded_modules.end();
}

}  // namespace

Program code_weights(Program forward, Quantization quantization, const ModelSpec& spec) {
  if (quantization == Quantization::none) {
    return forward;
  }
  for (const Op& op : forward.ops) {
    if (op.kind != OpKind::linear || op.layer == kNoLayer) {
      continue;
    }
    Buffer& weight = forward.buffer(op.inputs[1]);
    bool stays = std::any_of(weight.parts.begin(), weight.parts.end(),
                             [&](const TensorPart& part) { return stays_as_it_is(part, spec); });
    if (is_model_parameter(weight) && !stays && !weight.format.is_coded()) {
      DType dtype = weight.dtype();
      weight.format = format_of(quantization);
      weight.format.dtype = dtype;
    }
  }
  verify_with_shapes(forward);
  return forward;
}

}  // namespace snug
