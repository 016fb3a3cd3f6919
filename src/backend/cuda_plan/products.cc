// linear, the up product of LoRA, and their gradients.
#include "backend/cuda_plan/products.h"

#include <fmt/format.h>

#include <algorithm>

#include "backend/cuda_plan/card_rates.h"
#include "backend/cuda_plan/code_slices.h"
#include "backend/cuda_plan/float8_scratch.h"
#include "backend/cuda_plan/need_functions.h"
#include "backend/cuda_plan/row_sums.h"
#include "backend/cuda_plan/scratch.h"
#include "backend/gated_calls.h"
#include "ops/adapted_linear.h"
#include "program/operands.h"

namespace snug::cuda {

int64_t product_workspace(const Program&, const Op&) {
  return kBlasWorkspaceBytes;
}

// Room for the slice that a weight of codes is multiplied in: rows of W where columns of y come of them,
// columns where columns of dx do.
int64_t linear_workspace(const Program& program, const Op& op) {
  const Buffer& weight = program.buffer(op.inputs[1]);
  if (!weight.format.is_coded()) {
    return kBlasWorkspaceBytes;
  }
  int64_t rows = weight.dims[0].max;
  int64_t columns = weight.dims[1].max;
  if (weight.format.coding == Coding::fp8) {
    Float8Scratch scratch(program.buffer(op.inputs[0]).dims[0].max, rows, columns, op.kind == OpKind::linear);
    return kBlasWorkspaceBytes + scratch.bytes();
  }
  DType dtype = weight.format.dtype;
  int64_t elements = op.kind == OpKind::linear ? slice_size(rows, columns, dtype) * columns
                                               : slice_size(columns, rows, dtype) * rows;
  return kBlasWorkspaceBytes + padded_bytes_of<std::byte>(bytes_of(dtype, elements));
}

// The weight's product, then the bias's column sums in the same memory.
int64_t linear_backward_weight_workspace(const Program& program, const Op& op) {
  int64_t bytes = op.has_output(0) ? kBlasWorkspaceBytes : 0;
  if (op.has_output(1)) {
    const Buffer& dy = program.buffer(op.inputs[0]);
    bytes = std::max(bytes, padded_bytes_of<float>(bias_gradient_floats(dy.dims[0].max, dy.dims[1].max)));
  }
  return bytes;
}

// The product's, and room for what it makes where that has no buffer.
int64_t gated_linear_backward_workspace(const Program& program, const Op& op) {
  DType dtype = program.buffer(op.inputs[GatedLinearBackwardInput::x]).dtype();
  return kBlasWorkspaceBytes +
         padded_bytes_of<std::byte>(bytes_of(dtype, gated_scratch_elements(program, op)));
}

std::string find_unsupported_gated(const Program& program, const Op& op) {
  return find_unsupported_product(program, product_of(op));
}

// Products multiply one dtype with itself, and add biases of the result's dtype.
std::string find_unsupported_product(const Program& program, const Op& op) {
  using Backward = LoraUpBackwardInput;
  bool can_have_adapter = op.kind == OpKind::linear || op.kind == OpKind::linear_backward_input;
  if (can_have_adapter && has_adapter(op)) {
    std::string problem = find_unsupported_product(program, adapter_of(op));
    if (!problem.empty()) {
      return problem;
    }
  }
  bool reads_b = op.kind == OpKind::lora_up_backward && op.has_input(Backward::b);
  const Buffer& a = program.buffer(op.inputs[0]);
  const Buffer& b = program.buffer(op.inputs[reads_b ? size_t{Backward::b} : 1]);
  Format weight = b.format.is_coded() ? Format(b.format.dtype) : b.format;  // as it is multiplied
  if (a.format != weight) {
    return fmt::format(
        "the cuda backend multiplies {} (\"{}\") with {} (\"{}\") in no kernel: give both one dtype",
        name_of(a.format), a.name, name_of(weight), b.name);
  }
  if (op.kind == OpKind::linear && op.has_input(2)) {
    const Buffer& bias = program.buffer(op.inputs[2]);
    const Buffer& y = program.buffer(op.outputs[0]);
    if (bias.format != y.format) {
      return fmt::format("the cuda backend adds no {} bias (\"{}\") to {}: give both one dtype",
                         name_of(bias.format), bias.name, name_of(y.format));
    }
  }
  return "";
}

std::string find_unsupported_float8(const Program& program, const Op& op, int capability) {
  const Buffer& weight = program.buffer(op.inputs[1]);
  constexpr int kAda = 89;
  if (capability != 0 && capability < kAda) {
    return fmt::format(
        "model.compute: fp8 multiplies numbers of 8 bits, which cards of compute capability 8.9 (Ada: RTX "
        "40, "
        "L4, L40S) and newer do; this one has {}.{}: leave model.compute out",
        capability / 10, capability % 10);
  }
  if (weight.format.dtype == DType::f32) {
    return "model.compute: fp8 adds up what becomes bf16 or fp16 on a card, but model.dtype is fp32: write "
           "model.dtype: bf16";
  }
  if (weight.format.dtype == DType::f16 && capability != 0 && !scales_rows(capability)) {
    return fmt::format(
        "model.compute: fp8 makes sums on this card (compute capability {}.{}) that are too large for fp16 "
        "before "
        "they are scaled: write model.dtype: bf16",
        capability / 10, capability % 10);
  }
  // Rows and columns by which products of 8 bits are loaded, and the parts of one weight joined.
  constexpr int64_t kUnit = 16;
  bool fits = weight.dims[0].max % kUnit == 0 && weight.dims[1].max % kUnit == 0;
  for (const TensorPart& part : weight.parts) {
    fits = fits && part.rows % kUnit == 0;
  }
  return fits ? ""
              : fmt::format(
                    "model.compute: fp8 takes weights whose rows and columns are multiples of {} on a card, "
                    "but \"{}\" is {} x {}: leave model.compute out",
                    kUnit, weight.name, weight.dims[0].max, weight.dims[1].max);
}

}  // namespace snug::cuda
