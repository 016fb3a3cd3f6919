// gated_linear and its gradient: a product, then the activation, as for each by itself.
#include "backend/cpu/kernel_functions.h"
#include "backend/cpu/scratch.h"
#include "backend/gated_calls.h"

namespace snug::cpu {

void gated_linear(const KernelCall& call) {
  run_gated_linear_apart(call, linear, gated_activation);
}

int64_t gated_linear_workspace(const Program& program, const Op& op, int threads) {
  return linear_workspace(program, product_of(op), threads);
}

void gated_linear_backward(const KernelCall& call) {
  Scratch scratch(call.workspace);
  const Tensor& x = call.inputs[GatedLinearBackwardInput::x];
  void* dgated = needs_gated_scratch(call.op) ? scratch.take<std::byte>(x.bytes() / 2) : nullptr;
  run_gated_linear_backward_apart(call, dgated, scratch.rest(), linear_backward_input,
                                  gated_activation_backward);
}

int64_t gated_linear_backward_workspace(const Program& program, const Op& op, int threads) {
  DType dtype = program.buffer(op.inputs[GatedLinearBackwardInput::x]).dtype();
  return padded_bytes_of<std::byte>(bytes_of(dtype, gated_scratch_elements(program, op))) +
         linear_backward_input_workspace(program, product_of(op), threads);
}

}  // namespace snug::cpu
