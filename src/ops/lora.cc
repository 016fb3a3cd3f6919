// lora_up: y = or += scale * (x A^T) B^T for the adapted layers that lie side by side in y. The down product
// x A^T is an ordinary linear.
#include <fmt/format.h>

#include "ops/rows.h"
#include "ops/shapes.h"

namespace snug {
namespace {

// The same buffers in all three kinds: y or its gradient, the down product or its gradient, B or its
// gradient.
std::string check_parts(const Op& op, const Buffer* y, const Buffer* down, const Buffer* b) {
  if (y == nullptr || down == nullptr || b == nullptr || y->dims.size() != 2 || b->dims.size() != 2) {
    return "needs y [T,out], the down product and B";
  }
  const auto& attributes = attributes_of<LoraAttributes>(op);
  int64_t rows = 0;
  for (const LoraPart& part : attributes.parts) {
    if (part.y_column + part.rows > columns_of(*y) || part.b_row + part.rows > rows_of(*b)) {
      return fmt::format("a part of {} rows reaches past y or B", part.rows);
    }
    rows += part.rows;
  }
  Dim down_columns = fixed(static_cast<int64_t>(attributes.parts.size()) * attributes.rank);
  std::string problem = find_mismatch(
      {{"down product", down, {y->dims[0], down_columns}}, {"B", b, {fixed(rows), fixed(attributes.rank)}}});
  return problem.empty() ? find_dtype_mismatch({y, down}) : problem;
}

std::string check_up(const Program& program, const Op& op) {
  return check_parts(op, output_of(program, op, 0), input_of(program, op, 0), input_of(program, op, 1));
}

std::string check_backward_input(const Program& program, const Op& op) {
  return check_parts(op, input_of(program, op, 0), output_of(program, op, 0), input_of(program, op, 1));
}

std::string check_backward_weight(const Program& program, const Op& op) {
  return check_parts(op, input_of(program, op, 0), input_of(program, op, 1), output_of(program, op, 0));
}

void gradient(const Op& op, Gradients& gradients) {
  BufferId down = op.inputs[0];
  BufferId b = op.inputs[1];
  BufferId dy = gradients.of(op.outputs[0]);
  if (gradients.wanted(b)) {
    gradients.append(OpKind::lora_up_backward_weight, {dy, down}, {gradients.target(b)}, op.attributes);
  }
  if (gradients.wanted(down)) {
    gradients.append(OpKind::lora_up_backward_input, {dy, b}, {gradients.target(down)}, op.attributes);
  }
}

// All three kinds multiply tokens x (rows of B) x rank.
OpCost cost_of_lora(const Program& program, const Op& op) {
  const auto& attributes = attributes_of<LoraAttributes>(op);
  double tokens = static_cast<double>(rows_of(program.buffer(op.inputs[0])));
  double rows = 0;
  for (const LoraPart& part : attributes.parts) {
    rows += static_cast<double>(part.rows);
  }
  // Parts are products of their own.
  return {.flops = 2.0 * tokens * rows * static_cast<double>(attributes.rank),
          .bytes = touched_bytes(program, op),
          .starts = 1 + (kProductStarts - 1) * static_cast<double>(attributes.parts.size()),
          .pace = Pace::adapter};
}

}  // namespace

const OpRow kLoraUpRow = {.kind = OpKind::lora_up,
                          .name = "lora_up",
                          .find_shape_problem = check_up,
                          .append_gradient = gradient,
                          .cost = cost_of_lora};

const OpRow kLoraUpBackwardInputRow = {.kind = OpKind::lora_up_backward_input,
                                       .name = "lora_up_backward_input",
                                       .find_shape_problem = check_backward_input,
                                       .cost = cost_of_lora};

const OpRow kLoraUpBackwardWeightRow = {.kind = OpKind::lora_up_backward_weight,
                                        .name = "lora_up_backward_weight",
                                        .find_shape_problem = check_backward_weight,
                                        .cost = cost_of_lora};

}  // namespace snug
