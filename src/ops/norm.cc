// rms_norm: y = x / sqrt(mean(x^2) + epsilon) * w, and its fusion with the addition before it.
#include "ops/rows.h"
#include "ops/shapes.h"

namespace snug {
namespace {

std::string check_norm(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const Buffer* y = output_of(program, op, 0);
  if (x == nullptr || x->dims.size() != 2) {
    return "needs x [T,D]";
  }
  std::string problem = find_mismatch({{"w", input_of(program, op, 1), {x->dims[1]}}, {"y", y, x->dims}});
  return problem.empty() ? find_dtype_mismatch({x, y}) : problem;
}

void gradient(const Op& op, Gradients& gradients) {
  BufferId x = op.inputs[0];
  BufferId w = op.inputs[1];
  if (gradients.wanted(x) || gradients.wanted(w)) {
    gradients.append(OpKind::rms_norm_backward, {x, w, gradients.of(op.outputs[0])},
                     {gradients.target(x), gradients.target(w)}, op.attributes);
  }
}

std::string check_backward(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const Buffer* dy = input_of(program, op, 2);
  const Buffer* dx = output_of(program, op, 0);
  if (x == nullptr || x->dims.size() != 2) {
    return "needs x [T,D]";
  }
  std::string problem = find_mismatch({{"w", input_of(program, op, 1), {x->dims[1]}},
                                       {"dy", dy, x->dims},
                                       {"dx", dx, x->dims, true},
                                       {"dw", output_of(program, op, 1), {x->dims[1]}, true}});
  return problem.empty() ? find_dtype_mismatch({x, dy, dx}) : problem;
}

std::string check_add_norm(const Program& program, const Op& op) {
  const Buffer* a = input_of(program, op, 0);
  const Buffer* b = input_of(program, op, 1);
  const Buffer* sum = output_of(program, op, 0);
  const Buffer* y = output_of(program, op, 1);
  if (a == nullptr || a->dims.size() != 2) {
    return "needs a [T,D]";
  }
  std::string problem = find_mismatch({{"b", b, a->dims},
                                       {"w", input_of(program, op, 2), {a->dims[1]}},
                                       {"sum", sum, a->dims},
                                       {"y", y, a->dims}});
  return problem.empty() ? find_dtype_mismatch({a, b, sum, y}) : problem;
}

OpCost cost_of_norm(const Program& program, const Op& op) {
  return streaming_cost(program, op, 4);
}
OpCost cost_of_backward(const Program& program, const Op& op) {
  return streaming_cost(program, op, 10);
}

}  // namespace

const OpRow kRmsNormRow = {.kind = OpKind::rms_norm,
                           .name = "rms_norm",
                           .find_shape_problem = check_norm,
                           .append_gradient = gradient,
                           .cost = cost_of_norm};

const OpRow kRmsNormBackwardRow = {.kind = OpKind::rms_norm_backward,
                                   .name = "rms_norm_backward",
                                   .find_shape_problem = check_backward,
                                   .cost = cost_of_backward};

// Made by the fuse pass after gradients exist, so it has no gradient rule of its own.
const OpRow kAddRmsNormRow = {.kind = OpKind::add_rms_norm,
                              .name = "add_rms_norm",
                              .find_shape_problem = check_add_norm,
                              .cost = cost_of_norm,
                              .in_place = 1};

}  // namespace snug
