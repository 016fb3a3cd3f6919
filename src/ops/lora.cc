// lora_up: y = or += scale * (x A^T) B^T for the adapted layers that lie side by side in y. The down product
// x A^T is an ordinary linear.
#include <fmt/format.h>

#include "ops/rows.h"
#include "ops/shapes.h"
#include "program/operands.h"

namespace snug {
namespace {

// y or its gradient, the down product, and B.
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

// Of each pair, an operand and its gradient, either may be left out, but not both.
std::string check_backward(const Program& program, const Op& op) {
  using In = LoraUpBackwardInput;
  using Out = LoraUpBackwardOutput;
  const Buffer* down = input_of(program, op, In::down);
  const Buffer* b = input_of(program, op, In::b);
  const Buffer* ddown = output_of(program, op, Out::ddown);
  const Buffer* db = output_of(program, op, Out::db);
  if ((ddown != nullptr && b == nullptr) || (db != nullptr && down == nullptr)) {
    return "makes the down product's gradient of B, and that of B of the down product";
  }
  std::string problem =
      check_parts(op, input_of(program, op, In::dy), down != nullptr ? down : ddown, b != nullptr ? b : db);
  if (problem.empty() && ddown != nullptr && down != nullptr) {
    problem = find_mismatch({{"gradient of the down product", ddown, down->dims}});
  }
  if (problem.empty() && db != nullptr && b != nullptr) {
    problem = find_mismatch({{"dB", db, b->dims}});
  }
  return problem.empty() ? find_dtype_mismatch({down, ddown}) : problem;
}

// Two ops, as neither needs what the other one does; where they meet, they are joined (compile/fuse.h).
void gradient(const Op& op, Gradients& gradients) {
  BufferId down = op.inputs[0];
  BufferId b = op.inputs[1];
  BufferId dy = gradients.of(op.outputs[0]);
  if (gradients.wanted(b)) {
    gradients.append(OpKind::lora_up_backward, {dy, down, kNoBuffer}, {{}, gradients.target(b)},
                     op.attributes);
  }
  if (gradients.wanted(down)) {
    gradients.append(OpKind::lora_up_backward, {dy, kNoBuffer, b}, {gradients.target(down), {}},
                     op.attributes);
  }
}

// Each product multiplies tokens x (rows of B) x rank.
OpCost cost_of_products(const Program& program, const Op& op, int products) {
  const auto& attributes = attributes_of<LoraAttributes>(op);
  double tokens = static_cast<double>(rows_of(program.buffer(op.inputs[0])));
  double rows = 0;
  for (const LoraPart& part : attributes.parts) {
    rows += static_cast<double>(part.rows);
  }
  // Parts are products of their own.
  return {.flops = 2.0 * products * tokens * rows * static_cast<double>(attributes.rank),
          .bytes = touched_bytes(program, op),
          .starts = 1 + (kProductStarts - 1) * products * static_cast<double>(attributes.parts.size()),
          .pace = Pace::adapter};
}
OpCost cost_of_up(const Program& program, const Op& op) {
  return cost_of_products(program, op, 1);
}
OpCost cost_of_backward(const Program& program, const Op& op) {
  using Out = LoraUpBackwardOutput;
  if (!op.has_output(Out::ddown) || !op.has_output(Out::db)) {
    return cost_of_products(program, op, 1);
  }
  OpCost both = cost_of_products(program, op, 2);
  if (attributes_of<LoraAttributes>(op).rank > kSmallRank) {
    // Each gradient is made as if by an op of its own, from its own reading of dy.
    both.bytes += static_cast<double>(program.buffer(op.inputs[LoraUpBackwardInput::dy]).max_bytes());
    both.starts += 1;
  }
  return both;
}

}  // namespace

const OpRow kLoraUpRow = {.kind = OpKind::lora_up,
                          .name = "lora_up",
                          .find_shape_problem = check_up,
                          .append_gradient = gradient,
                          .cost = cost_of_up};

const OpRow kLoraUpBackwardRow = {.kind = OpKind::lora_up_backward,
                                  .name = "lora_up_backward",
                                  .find_shape_problem = check_backward,
                                  .cost = cost_of_backward};

}  // namespace snug
