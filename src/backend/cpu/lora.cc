// The up product of LoRA and its gradients: one GEMM per adapted layer, on columns of y that it owns.
#include <algorithm>

#include "backend/cpu/gemm.h"
#include "backend/cpu/kernel_functions.h"
#include "program/operands.h"

namespace snug::cpu {
namespace {

// Part i of y (or dy) [T,out], of the down product (or its gradient) [T,parts*r], and of B (or dB).
struct PartViews {
  MatrixView y;
  MatrixView down;
  MatrixView b;
};

// One product a part; `roles` says which matrix of the part is which of the product.
template <typename Roles>
void multiply_parts(const KernelCall& call, size_t output, const PartViews& whole, const Roles& roles) {
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
    gemm(product, call.workspace);
  }
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
  PartViews whole = {matrix(call.outputs[0]), matrix(call.inputs[0]), matrix(call.inputs[1])};
  multiply_parts(call, 0, whole, [](const PartViews& part) {
    return Gemm{.a = part.down, .b = part.b, .c = part.y, .transpose_b = true};
  });
}

int64_t lora_up_workspace(const Program& program, const Op& op, int threads) {
  const auto& attributes = attributes_of<LoraAttributes>(op);
  const Buffer& down = program.buffer(op.inputs[0]);
  return gemm_workspace_bytes({down.dims[0].max, largest_part(attributes), attributes.rank, down.dtype(),
                               program.buffer(op.inputs[1]).dtype(), program.buffer(op.outputs[0]).dtype()},
                              threads);
}

// Part i: ddown_i [T,r] = or += scale * dy [T, its columns] B_i [rows,r], and dB_i [rows,r] = or += scale *
// dy^T [its columns, T] down_i [T,r].
void lora_up_backward(const KernelCall& call) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  MatrixView dy = matrix(call.inputs[In::dy]);
  if (call.has_output(Out::ddown)) {
    PartViews whole = {dy, matrix(call.outputs[Out::ddown]), matrix(call.inputs[In::b])};
    multiply_parts(call, Out::ddown, whole,
                   [](const PartViews& part) { return Gemm{.a = part.y, .b = part.b, .c = part.down}; });
  }
  if (call.has_output(Out::db)) {
    PartViews whole = {dy, matrix(call.inputs[In::down]), matrix(call.outputs[Out::db])};
    multiply_parts(call, Out::db, whole, [](const PartViews& part) {
      return Gemm{.a = part.y, .b = part.down, .c = part.b, .transpose_a = true};
    });
  }
}

int64_t lora_up_backward_workspace(const Program& program, const Op& op, int threads) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  const auto& attributes = attributes_of<LoraAttributes>(op);
  const Buffer& dy = program.buffer(op.inputs[In::dy]);
  int64_t tokens = dy.dims[0].max;
  int64_t bytes = 0;
  if (op.has_output(Out::ddown)) {
    bytes = gemm_workspace_bytes(
        {tokens, attributes.rank, largest_part(attributes), dy.dtype(),
         program.buffer(op.inputs[In::b]).dtype(), program.buffer(op.outputs[Out::ddown]).dtype()},
        threads);
  }
  if (op.has_output(Out::db)) {
    bytes = std::max(bytes, gemm_workspace_bytes({largest_part(attributes), attributes.rank, tokens,
                                                  dy.dtype(), program.buffer(op.inputs[In::down]).dtype(),
                                                  program.buffer(op.outputs[Out::db]).dtype()},
                                                 threads));
  }
  return bytes;
}

}  // namespace snug::cpu
