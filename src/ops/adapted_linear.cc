#include "ops/adapted_linear.h"

#include "base/check.h"
#include "program/operands.h"

namespace snug {
namespace {

bool is_backward(const Op& product) {
  SNUG_CHECK(product.kind == OpKind::linear || product.kind == OpKind::linear_backward_input,
             "a product that has no adapter");
  return product.kind == OpKind::linear_backward_input;
}

}  // namespace

size_t product_inputs(const Op& product) {
  return is_backward(product) ? size_t{LinearBackwardInput::ddown} : size_t{LinearInput::down};
}

bool has_adapter(const Op& product) {
  return product.has_input(product_inputs(product));
}

Op adapter_of(const Op& product) {
  Op adapter = product;
  auto first = product.inputs.begin() + static_cast<std::ptrdiff_t>(product_inputs(product));
  adapter.inputs = {first, first + 2};
  if (is_backward(product)) {
    adapter.attributes = LinearAttributes{};
  } else {
    adapter.kind = OpKind::lora_up;
    adapter.attributes = attributes_of<LinearAttributes>(product).adapter;
  }
  return adapter;
}

Op without_adapter(const Op& product) {
  Op base = product;
  base.inputs.resize(product_inputs(product));
  base.accumulates = 1;
  return base;
}

}  // namespace snug
