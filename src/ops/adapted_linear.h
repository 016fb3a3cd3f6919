// A product that begins with an adapter's share, as the two ops that it stands for.
#pragma once

#include "program/op.h"

namespace snug {

// Of linear and linear_backward_input. The adapter's op, lora_up or linear_backward_input of the down
// product's gradient, writes its share; the product is added to it. The adapter's two inputs follow those of
// the product, of which there are `product_inputs`.
bool has_adapter(const Op& product);
Op adapter_of(const Op& product);
Op without_adapter(const Op& product);
size_t product_inputs(const Op& product);

}  // namespace snug
