// The up product of LoRA and its gradients: one product per adapted layer, on the columns of y that it owns.
#include "backend/cuda/blas.h"
#include "backend/cuda/kernel_functions.h"
#include "backend/cuda/lora_gradients.h"
#include "backend/cuda/lora_hopper.h"
#include "backend/cuda/lora_thin.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

// Part i of y (or dy) [T,out], of the down product (or its gradient) [T,parts*r], and of B (or dB).
struct PartViews {
  Matrix y;
  Matrix down;
  Matrix b;
};

// One product a part; `roles` says which matrix of the part is which of the product.
template <typename Roles>
void multiply_parts(const Queue& queue, const KernelCall& call, size_t output, const PartViews& whole,
                    const Roles& roles) {
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  for (size_t i = 0; i < attributes.parts.size(); ++i) {
    const LoraPart& part = attributes.parts[i];
    Gemm product = roles(PartViews{
        whole.y.column_block(part.y_column, part.rows),
        whole.down.column_block(static_cast<int64_t>(i) * attributes.rank, attributes.rank),
        whole.b.row_block(part.b_row, part.rows),
    });
    product.alpha = attributes.scale;
    product.accumulate = call.op.accumulates_output(output);
    queue.blas->run(product, call.workspace, queue.stream);
  }
}

}  // namespace

// Part i: y [T, its columns] = or += scale * down_i [T,r] B_i^T [r,rows].
void lora_up(const Queue& queue, const KernelCall& call) {
  if (thin_lora_up(call, queue.stream) ||
      (call.op.accumulates_output(0) && hopper_lora_up(call, queue.stream))) {
    return;
  }
  PartViews whole = {matrix(call.outputs[0]), matrix(call.inputs[0]), matrix(call.inputs[1])};
  multiply_parts(queue, call, 0, whole, [](const PartViews& part) {
    return Gemm{.a = part.down, .b = part.b, .c = part.y, .transpose_b = true};
  });
}

// Part i: ddown_i [T,r] = or += scale * dy [T, its columns] B_i [rows,r], and dB_i [rows,r] = or += scale *
// dy^T [its columns, T] down_i [T,r].
void lora_up_backward(const Queue& queue, const KernelCall& call) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  if (thin_lora_gradient(call, queue.stream) || hopper_lora_gradients(call, queue.stream)) {
    return;
  }
  Matrix dy = matrix(call.inputs[In::dy]);
  if (call.has_output(Out::db)) {
    PartViews whole = {dy, matrix(call.inputs[In::down]), matrix(call.outputs[Out::db])};
    multiply_parts(queue, call, Out::db, whole, [](const PartViews& part) {
      return Gemm{.a = part.y, .b = part.down, .c = part.b, .transpose_a = true};
    });
  }
  if (call.has_output(Out::ddown)) {
    PartViews whole = {dy, matrix(call.outputs[Out::ddown]), matrix(call.inputs[In::b])};
    multiply_parts(queue, call, Out::ddown, whole,
                   [](const PartViews& part) { return Gemm{.a = part.y, .b = part.b, .c = part.down}; });
  }
}

}  // namespace snug::cuda
