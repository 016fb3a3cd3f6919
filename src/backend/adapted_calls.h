// A product that begins with an adapter's share (ops/adapted_linear.h), run as the two kernels that it stands
// for.
#pragma once

#include "backend/backend.h"
#include "ops/adapted_linear.h"

namespace snug {

template <typename Adapter, typename Product>
void run_adapted_apart(const KernelCall& call, const Adapter& adapter, const Product& product) {
  size_t inputs = product_inputs(call.op);
  Op share = adapter_of(call.op);
  adapter(KernelCall{share, call.inputs.subspan(inputs, 2), call.outputs, call.workspace});
  Op base = without_adapter(call.op);
  product(KernelCall{base, call.inputs.first(inputs), call.outputs, call.workspace});
}

}  // namespace snug
