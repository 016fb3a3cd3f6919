// The up product of LoRA and its gradients: one GEMM per adapted layer, on columns of y that it owns.
#include <algorithm>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel_functions.h"

namespace snug::cpu {
namespace {

// Part i of y (or dy) [T,out], of the down product (or its gradient) [T,parts*r], and of B (or dB).
struct PartViews {
  MatrixView y;
  MatrixView down;
  MatrixView b;
};

PartViews part_views(const LoraAttributes& attributes, size_t i, const PartViews& whole) {
  const LoraPart& part = attributes.parts[i];
  return {whole.y.column_block(part.y_column, part.rows),
          whole.down.column_block(static_cast<int64_t>(i) * attributes.rank, attributes.rank),
          whole.b.row_block(part.b_row, part.rows)};
}

int64_t largest_part(const LoraAttributes& attributes) {
  int64_t rows = 0;
  for (const LoraPart& part : attributes.parts) {
    rows = std::max(rows, part.rows);
  }
  return rows;
}

}  // namespace

// Part i: y [T, its columns] = or += scale * down_i [T,r] B_i^T [r,rows].
void lora_up(const KernelCall& call) {
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  PartViews whole = {matrix(call.outputs[0]), matrix(call.inputs[0]), matrix(call.inputs[1])};
  for (size_t i = 0; i < attributes.parts.size(); ++i) {
    PartViews part = part_views(attributes, i, whole);
    Gemm product;
    product.a = part.down;
    product.b = part.b;
    product.c = part.y;
    product.transpose_b = true;
    product.alpha = attributes.scale;
    product.accumulate = call.op.accumulates_output(0);
    gemm(product, call.workspace);
  }
}

int64_t lora_up_workspace(const Program& program, const Op& op, int threads) {
  const auto& attributes = attributes_of<LoraAttributes>(op);
  const Buffer& down = program.buffer(op.inputs[0]);
  return gemm_workspace_bytes({down.dims[0].max, largest_part(attributes), attributes.rank, down.dtype(),
                               program.buffer(op.inputs[1]).dtype(), program.buffer(op.outputs[0]).dtype()},
                              threads);
}

// Part i: ddown_i [T,r] = or += scale * dy [T, its columns] B_i [rows,r].
void lora_up_backward_input(const KernelCall& call) {
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  PartViews whole = {matrix(call.inputs[0]), matrix(call.outputs[0]), matrix(call.inputs[1])};
  for (size_t i = 0; i < attributes.parts.size(); ++i) {
    PartViews part = part_views(attributes, i, whole);
    Gemm product;
    product.a = part.y;
    product.b = part.b;
    product.c = part.down;
    product.alpha = attributes.scale;
    product.accumulate = call.op.accumulates_output(0);
    gemm(product, call.workspace);
  }
}

int64_t lora_up_backward_input_workspace(const Program& program, const Op& op, int threads) {
  const auto& attributes = attributes_of<LoraAttributes>(op);
  const Buffer& dy = program.buffer(op.inputs[0]);
  return gemm_workspace_bytes({dy.dims[0].max, attributes.rank, largest_part(attributes), dy.dtype(),
                               program.buffer(op.inputs[1]).dtype(), program.buffer(op.outputs[0]).dtype()},
                              threads);
}

// Part i: dB_i [rows,r] = or += scale * dy^T [its columns, T] down_i [T,r].
void lora_up_backward_weight(const KernelCall& call) {
  const auto& attributes = attributes_of<LoraAttributes>(call.op);
  PartViews whole = {matrix(call.inputs[0]), matrix(call.inputs[1]), matrix(call.outputs[0])};
  for (size_t i = 0; i < attributes.parts.size(); ++i) {
    PartViews part = part_views(attributes, i, whole);
    Gemm product;
    product.a = part.y;
    product.b = part.down;
    product.c = part.b;
    product.transpose_a = true;
    product.alpha = attributes.scale;
    product.accumulate = call.op.accumulates_output(0);
    gemm(product, call.workspace);
  }
}

int64_t lora_up_backward_weight_workspace(const Program& program, const Op& op, int threads) {
  const auto& attributes = attributes_of<LoraAttributes>(op);
  const Buffer& dy = program.buffer(op.inputs[0]);
  return gemm_workspace_bytes({largest_part(attributes), attributes.rank, dy.dims[0].max, dy.dtype(),
                               program.buffer(op.inputs[1]).dtype(), program.buffer(op.outputs[0]).dtype()},
                              threads);
}

}  // namespace snug::cpu
