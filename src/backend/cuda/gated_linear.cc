// gated_linear and its gradient: on Hopper one kernel each, elsewhere a product and then the activation.
#include "backend/cuda/gated_product.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda_plan/scratch.h"
#include "backend/gated_calls.h"

namespace snug::cuda {

// xw [T,2F] = or += x [T,in] W^T [in,2F]; y [T,F] = f(gate) * up, where it is wanted.
void gated_linear(const Queue& queue, const KernelCall& call) {
  if (hopper_gated_product(call, queue.stream)) {
    return;
  }
  run_gated_linear_apart(
      call, [&](const KernelCall& product) { linear(queue, product); },
      [&](const KernelCall& gate) { gated_activation(queue, gate); });
}

// The gradient of f(gate) * up for (dgated +) dy [T,out] W [out,F].
void gated_linear_backward(const Queue& queue, const KernelCall& call) {
  if (hopper_gated_gradient(call, queue.stream)) {
    return;
  }
  Scratch scratch(call.workspace);
  const Tensor& x = call.inputs[GatedLinearBackwardInput::x];
  void* dgated = needs_gated_scratch(call.op) ? scratch.take<std::byte>(x.bytes() / 2) : nullptr;
  run_gated_linear_backward_apart(
      call, dgated, scratch.rest(), [&](const KernelCall& product) { linear_backward_input(queue, product); },
      [&](const KernelCall& gate) { gated_activation_backward(queue, gate); });
}

}  // namespace snug::cuda
