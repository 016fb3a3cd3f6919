// gated_activation: f(gate) * up, where gate and up lie side by side (SwiGLU with silu, gated GELU).
#include "ops/rows.h"
#include "ops/shapes.h"

namespace snug {
namespace {

std::string check_halves(const Buffer* wide, const Buffer* narrow) {
  if (wide == nullptr || narrow == nullptr || wide->dims.size() != 2 || narrow->dims.size() != 2) {
    return "needs x [T,2F] and y [T,F]";
  }
  std::string problem = find_mismatch({{"x", wide, {narrow->dims[0], fixed(2 * narrow->dims[1].max)}}});
  return problem.empty() ? find_dtype_mismatch({wide, narrow}) : problem;
}

std::string check_forward(const Program& program, const Op& op) {
  return check_halves(input_of(program, op, 0), output_of(program, op, 0));
}

void gradient(const Op& op, Gradients& gradients) {
  if (!gradients.wanted(op.inputs[0])) {
    return;
  }
  Gradients::Target target = gradients.target(op.inputs[0]);
  gradients.append(OpKind::gated_activation_backward, {op.inputs[0], gradients.of(op.outputs[0])}, {target},
                   op.attributes);
}

std::string check_backward(const Program& program, const Op& op) {
  std::string problem = check_halves(input_of(program, op, 0), input_of(program, op, 1));
  if (problem.empty() && op.accumulates != 0) {
    problem = "writes its gradient, and cannot add to it";
  }
  if (problem.empty()) {
    problem = check_halves(output_of(program, op, 0), input_of(program, op, 1));
  }
  if (problem.empty() && op.outputs.size() > 1) {
    problem = check_halves(input_of(program, op, 0), output_of(program, op, 1));
  }
  return problem;
}

OpCost cost_of_gate(const Program& program, const Op& op) {
  return streaming_cost(program, op, 8);
}

}  // namespace

const OpRow kGatedActivationRow = {.kind = OpKind::gated_activation,
                                   .name = "gated_activation",
                                   .find_shape_problem = check_forward,
                                   .append_gradient = gradient,
                                   .cost = cost_of_gate};

const OpRow kGatedActivationBackwardRow = {.kind = OpKind::gated_activation_backward,
                                           .name = "gated_activation_backward",
                                           .find_shape_problem = check_backward,
                                           .cost = cost_of_gate,
                                           .in_place = 2};

}  // namespace snug
