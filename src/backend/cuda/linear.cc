// linear and its gradients: one product each, or one a slice of a weight of codes; before it an adapter's
// share, if there is one.
#include "backend/adapted_calls.h"
#include "backend/cuda/bias_gradient.h"
#include "backend/cuda/blas.h"
#include "backend/cuda/coded_product.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda_plan/row_sums.h"
#include "backend/cuda_plan/scratch.h"

namespace snug::cuda {
namespace {

void run_product(const Queue& queue, const KernelCall& call, Gemm product) {
  const Tensor& weight = call.inputs[1];
  if (weight.coded != nullptr) {
    run_coded(queue, product, weight, call.workspace);
    return;
  }
  product.b = matrix(weight);
  queue.blas->run(product, call.workspace, queue.stream);
}

}  // namespace

// y [T,out] = or += scale * x [T,in] W^T [in,out] + bias [out].
void linear(const Queue& queue, const KernelCall& call) {
  if (has_adapter(call.op)) {
    run_adapted_apart(
        call, [&](const KernelCall& share) { lora_up(queue, share); },
        [&](const KernelCall& product) { linear(queue, product); });
    return;
  }
  Gemm product;
  product.a = matrix(call.inputs[0]);
  product.c = matrix(call.outputs[0]);
  product.transpose_b = true;
  product.alpha = attributes_of<LinearAttributes>(call.op).scale;
  product.accumulate = call.op.accumulates_output(0);
  product.bias = call.has_input(2) ? call.inputs[2].data : nullptr;
  run_product(queue, call, product);
}

// dx [T,in] = or += scale * dy [T,out] W [out,in].
void linear_backward_input(const Queue& queue, const KernelCall& call) {
  if (has_adapter(call.op)) {
    auto run = [&](const KernelCall& product) { linear_backward_input(queue, product); };
    run_adapted_apart(call, run, run);
    return;
  }
  Gemm product;
  product.a = matrix(call.inputs[0]);
  product.c = matrix(call.outputs[0]);
  product.alpha = attributes_of<LinearAttributes>(call.op).scale;
  product.accumulate = call.op.accumulates_output(0);
  run_product(queue, call, product);
}

// dW [out,in] = or += scale * dy^T [out,T] x [T,in]; dbias [out] = or += column sums of dy.
void linear_backward_weight(const Queue& queue, const KernelCall& call) {
  const Tensor& dy = call.inputs[0];
  if (call.outputs[0].data != nullptr) {
    Gemm product;
    product.a = matrix(dy);
    product.b = matrix(call.inputs[1]);
    product.c = matrix(call.outputs[0]);
    product.transpose_a = true;
    product.alpha = attributes_of<LinearAttributes>(call.op).scale;
    product.accumulate = call.op.accumulates_output(0);
    queue.blas->run(product, call.workspace, queue.stream);
  }
  if (call.has_output(1)) {
    float* partials = Scratch(call.workspace).take<float>(bias_gradient_floats(dy.rows(), dy.columns()));
    bias_gradient(queue.stream, dy, call.outputs[1], partials, call.op.accumulates_output(1));
  }
}

}  // namespace snug::cuda
