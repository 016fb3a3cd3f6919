// linear and its gradients: one product each.
#include <fmt/format.h>

#include "backend/cuda/bias_gradient.h"
#include "backend/cuda/blas.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/scratch.h"

namespace snug::cuda {
namespace {

bool has_output(const Op& op, size_t i) {
  return op.outputs.size() > i && op.outputs[i] != kNoBuffer;
}

}  // namespace

// y [T,out] = or += scale * x [T,in] W^T [in,out] + bias [out].
void linear(const Queue& queue, const KernelCall& call) {
  Gemm product;
  product.a = matrix(call.inputs[0]);
  product.b = matrix(call.inputs[1]);
  product.c = matrix(call.outputs[0]);
  product.transpose_b = true;
  product.alpha = attributes_of<LinearAttributes>(call.op).scale;
  product.accumulate = call.op.accumulates_output(0);
  product.bias = call.inputs.size() > 2 ? call.inputs[2].data : nullptr;
  queue.blas->run(product, call.workspace, queue.stream);
}

int64_t linear_workspace(const Program&, const Op&) {
  return kBlasWorkspaceBytes;
}

// dx [T,in] = or += scale * dy [T,out] W [out,in].
void linear_backward_input(const Queue& queue, const KernelCall& call) {
  Gemm product;
  product.a = matrix(call.inputs[0]);
  product.b = matrix(call.inputs[1]);
  product.c = matrix(call.outputs[0]);
  product.alpha = attributes_of<LinearAttributes>(call.op).scale;
  product.accumulate = call.op.accumulates_output(0);
  queue.blas->run(product, call.workspace, queue.stream);
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
  if (call.outputs.size() > 1 && call.outputs[1].data != nullptr) {
    float* partials = Scratch(call.workspace).take<float>(bias_gradient_floats(dy.rows(), dy.columns()));
    bias_gradient(queue.stream, dy, call.outputs[1], partials, call.op.accumulates_output(1));
  }
}

int64_t linear_backward_weight_workspace(const Program& program, const Op& op) {
  int64_t bytes = has_output(op, 0) ? kBlasWorkspaceBytes : 0;
  if (has_output(op, 1)) {
    const Buffer& dy = program.buffer(op.inputs[0]);
    bytes = std::max(bytes, padded_bytes_of<float>(bias_gradient_floats(dy.dims[0].max, dy.dims[1].max)));
  }
  return bytes;
}

// Products multiply one dtype with itself, and add biases of the result's dtype.
std::string find_unsupported_product(const Program& program, const Op& op) {
  const Buffer& a = program.buffer(op.inputs[0]);
  const Buffer& b = program.buffer(op.inputs[1]);
  if (a.dtype != b.dtype) {
    return fmt::format(
        "the cuda backend multiplies {} (\"{}\") with {} (\"{}\") in no kernel: give both one dtype",
        name_of(a.dtype), a.name, name_of(b.dtype), b.name);
  }
  if (op.kind == OpKind::linear && op.inputs.size() > 2 && op.inputs[2] != kNoBuffer) {
    const Buffer& bias = program.buffer(op.inputs[2]);
    const Buffer& y = program.buffer(op.outputs[0]);
    if (bias.dtype != y.dtype) {
      return fmt::format("the cuda backend adds no {} bias (\"{}\") to {}: give both one dtype",
                         name_of(bias.dtype), bias.name, name_of(y.dtype));
    }
  }
  return "";
}

}  // namespace snug::cuda
