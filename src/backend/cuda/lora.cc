// The up product of LoRA and its gradients: one product per adapted layer, on the columns of y that it owns.
#include "backend/cuda/blas.h"
#include "backend/cuda/kernel_functions.h"

namespace snug::cuda {
namespace {

// Part i of y (or dy) [T,out], of the down product (or its gradient) [T,parts*r], and of B (or dB).
struct PartViews {
  Matrix y;
  Matrix down;
  Matrix b;
};

template <typename Product>
void for_each_part(const KernelCall& call, const PartViews& whole, const Product& product) {
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  for (size_t i = 0; i < attributes.parts.size(); ++i) {
    const LoraPart& part = attributes.parts[i];
    product(PartViews{whole.y.column_block(part.y_column, part.rows),
                      whole.down.column_block(static_cast<int64_t>(i) * attributes.rank, attributes.rank),
                      whole.b.row_block(part.b_row, part.rows)},
            attributes.scale);
  }
}

}  // namespace

// Part i: y [T, its columns] += scale * down_i [T,r] B_i^T [r,rows].
void lora_up(const Queue& queue, const KernelCall& call) {
  PartViews whole = {matrix(call.outputs[0]), matrix(call.inputs[0]), matrix(call.inputs[1])};
  for_each_part(call, whole, [&](const PartViews& part, float scale) {
    Gemm product;
    product.a = part.down;
    product.b = part.b;
    product.c = part.y;
    product.transpose_b = true;
    product.alpha = scale;
    product.accumulate = true;
    queue.blas->run(product, call.workspace, queue.stream);
  });
}

// Part i: ddown_i [T,r] = or += scale * dy [T, its columns] B_i [rows,r].
void lora_up_backward_input(const Queue& queue, const KernelCall& call) {
  PartViews whole = {matrix(call.inputs[0]), matrix(call.outputs[0]), matrix(call.inputs[1])};
  for_each_part(call, whole, [&](const PartViews& part, float scale) {
    Gemm product;
    product.a = part.y;
    product.b = part.b;
    product.c = part.down;
    product.alpha = scale;
    product.accumulate = call.op.accumulates_output(0);
    queue.blas->run(product, call.workspace, queue.stream);
  });
}

// Part i: dB_i [rows,r] = or += scale * dy^T [its columns, T] down_i [T,r].
void lora_up_backward_weight(const Queue& queue, const KernelCall& call) {
  PartViews whole = {matrix(call.inputs[0]), matrix(call.inputs[1]), matrix(call.outputs[0])};
  for_each_part(call, whole, [&](const PartViews& part, float scale) {
    Gemm product;
    product.a = part.y;
    product.b = part.down;
    product.c = part.b;
    product.transpose_a = true;
    product.alpha = scale;
    product.accumulate = call.op.accumulates_output(0);
    queue.blas->run(product, call.workspace, queue.stream);
  });
}

int64_t lora_workspace(const Program&, const Op&) {
  return kBlasWorkspaceBytes;
}

}  // namespace snug::cuda
