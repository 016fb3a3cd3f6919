// A product joined with a gated activation (ops/gated_linear.h), run as the two kernels that it stands for.
#pragma once

#include <array>
#include <span>

#include "backend/backend.h"
#include "ops/gated_linear.h"
#include "program/operands.h"

namespace snug {

// The two calls of gated_linear, or one where no activation is wanted.
template <typename Product, typename Gate>
void run_gated_linear_apart(const KernelCall& call, const Product& product, const Gate& gate) {
  Op first = product_of(call.op);
  product(KernelCall{first, call.inputs, call.outputs.first(1), call.workspace});
  if (call.has_output(1)) {
    Op second = gate_of(call.op);
    gate(KernelCall{second, call.outputs.first(1), call.outputs.subspan(1, 1), {}});
  }
}

// What the product of gated_linear_backward is made in, where no buffer of its own waits for it: scratch
// memory that holds so many elements of x's dtype.
inline bool needs_gated_scratch(const Op& op) {
  return !op.has_input(GatedLinearBackwardInput::dgated) && !op.has_output(GatedLinearBackwardOutput::gated);
}
inline int64_t gated_scratch_elements(const Program& program, const Op& op) {
  using In = GatedLinearBackwardInput;
  return needs_gated_scratch(op)
             ? program.buffer(op.inputs[In::x]).dims[0].max * program.buffer(op.inputs[In::w]).dims[1].max
             : 0;
}

// `scratch`: for the product, where needs_gated_scratch; `workspace`: the product's own.
template <typename Product, typename Gate>
void run_gated_linear_backward_apart(const KernelCall& call, void* scratch, std::span<std::byte> workspace,
                                     const Product& product, const Gate& gate) {
  using In = GatedLinearBackwardInput;
  using Out = GatedLinearBackwardOutput;
  Tensor dgated = call.has_input(In::dgated) ? call.inputs[In::dgated] : call.inputs[In::x];
  if (!call.has_input(In::dgated)) {
    dgated.data = call.has_output(Out::gated) ? call.outputs[Out::gated].data : scratch;
    dgated.dims[1] = call.inputs[In::w].columns();
  }
  Op first = product_of(call.op);
  product(KernelCall{first, call.inputs.subspan(In::dy), std::span(&dgated, 1), workspace});
  std::array<Tensor, 2> gradients = {call.inputs[In::x], dgated};
  Op second = gate_of(call.op);
  gate(KernelCall{second, gradients, call.outputs, {}});
}

}  // namespace snug
