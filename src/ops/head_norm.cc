// head_norm: rms_norm of every query and key head on its own, within a row of fused queries, keys and values;
// alone, and with the rotation of those heads that follows it (compile/fuse.h).
#include "ops/rows.h"
#include "ops/shapes.h"
#include "program/operands.h"

namespace snug {
namespace {

std::string check_heads(const Op& op, const Buffer* x, const Buffer* q_weight, const Buffer* k_weight) {
  if (x == nullptr || q_weight == nullptr || x->dims.size() != 2 || q_weight->dims.size() != 1) {
    return "needs x [T,C] and weights [hd]";
  }
  const auto& attributes = attributes_of<HeadNormAttributes>(op);
  if ((attributes.q_heads + attributes.k_heads) * q_weight->dims[0].max > columns_of(*x)) {
    return "the heads reach past the row";
  }
  return find_mismatch({{"wk", k_weight, q_weight->dims}});
}

std::string check_forward(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const Buffer* y = output_of(program, op, 0);
  std::string problem = check_heads(op, x, input_of(program, op, 1), input_of(program, op, 2));
  if (problem.empty()) {
    problem = find_mismatch({{"y", y, x->dims}});
  }
  return problem.empty() ? find_dtype_mismatch({x, y}) : problem;
}

void gradient(const Op& op, Gradients& gradients) {
  BufferId x = op.inputs[0];
  if (gradients.wanted(x)) {
    gradients.append(OpKind::head_norm_backward, {x, op.inputs[1], op.inputs[2], gradients.of(op.outputs[0])},
                     {gradients.target(x), gradients.target(op.inputs[1]), gradients.target(op.inputs[2])},
                     op.attributes);
  }
}

// What a rotation needs beyond the heads, which check_heads has seen.
std::string check_angles(const Buffer& x, const Buffer& weight, const Buffer* positions,
                         const Buffer* frequencies) {
  int64_t head_dim = weight.dims[0].max;
  if (head_dim % 2 != 0) {
    return "rotates pairs, and the heads are odd";
  }
  return find_mismatch(
      {{"positions", positions, {x.dims[0]}}, {"frequencies", frequencies, {fixed(head_dim / 2)}}});
}

std::string check_rotated(const Program& program, const Op& op) {
  using In = HeadNormRopeInput;
  std::string problem = check_forward(program, op);
  return problem.empty() ? check_angles(*input_of(program, op, In::x), *input_of(program, op, In::wq),
                                        input_of(program, op, In::positions),
                                        input_of(program, op, In::inverse_frequencies))
                         : problem;
}

std::string check_backward(const Program& program, const Op& op) {
  using In = HeadNormBackwardInput;
  const Buffer* x = input_of(program, op, In::x);
  const Buffer* q_weight = input_of(program, op, In::wq);
  const Buffer* dy = input_of(program, op, In::dy);
  std::string problem = check_heads(op, x, q_weight, input_of(program, op, In::wk));
  if (problem.empty() && op.accumulates_output(0)) {
    problem = "writes dx, and cannot add to it";
  }
  if (problem.empty()) {
    problem = find_mismatch({{"dy", dy, x->dims},
                             {"dx", output_of(program, op, 0), x->dims},
                             {"dwq", output_of(program, op, 1), q_weight->dims, true},
                             {"dwk", output_of(program, op, 2), q_weight->dims, true}});
  }
  return problem.empty() ? find_dtype_mismatch({x, dy, output_of(program, op, 0)}) : problem;
}

std::string check_rotated_backward(const Program& program, const Op& op) {
  using In = HeadNormBackwardInput;
  std::string problem = check_backward(program, op);
  return problem.empty() ? check_angles(*input_of(program, op, In::x), *input_of(program, op, In::wq),
                                        input_of(program, op, In::positions),
                                        input_of(program, op, In::inverse_frequencies))
                         : problem;
}

OpCost cost_of_forward(const Program& program, const Op& op) {
  return streaming_cost(program, op, 4);
}
OpCost cost_of_backward(const Program& program, const Op& op) {
  return streaming_cost(program, op, 10);
}
OpCost cost_of_rotated(const Program& program, const Op& op) {
  return streaming_cost(program, op, 4 + 3);
}
OpCost cost_of_rotated_backward(const Program& program, const Op& op) {
  return streaming_cost(program, op, 10 + 3);
}

}  // namespace

const OpRow kHeadNormRow = {.kind = OpKind::head_norm,
                            .name = "head_norm",
                            .find_shape_problem = check_forward,
                            .append_gradient = gradient,
                            .cost = cost_of_forward};

const OpRow kHeadNormBackwardRow = {.kind = OpKind::head_norm_backward,
                                    .name = "head_norm_backward",
                                    .find_shape_problem = check_backward,
                                    .cost = cost_of_backward};

const OpRow kHeadNormRopeRow = {.kind = OpKind::head_norm_rope,
                                .name = "head_norm_rope",
                                .find_shape_problem = check_rotated,
                                .cost = cost_of_rotated,
                                .in_place = 1};

const OpRow kHeadNormRopeBackwardRow = {.kind = OpKind::head_norm_rope_backward,
                                        .name = "head_norm_rope_backward",
                                        .find_shape_problem = check_rotated_backward,
                                        .cost = cost_of_rotated_backward};

}  // namespace snug
