// linear: y = scale * x W^T + bias, the product that nearly all time goes to. It may begin with an adapter's
// share.
#include "ops/adapted_linear.h"
#include "ops/rows.h"
#include "ops/shapes.h"
#include "program/operands.h"

namespace snug {
namespace {

// x [T,in] and W [out,in] meet y [T,out]; each may be a gradient.
std::string check_product(const Buffer* x, const Buffer* w, const Buffer* y) {
  if (w == nullptr || w->dims.size() != 2 || x == nullptr || x->dims.size() != 2) {
    return "needs x [T,in] and W [out,in]";
  }
  std::string problem =
      find_mismatch({{"x", x, {x->dims[0], w->dims[1]}}, {"y", y, {x->dims[0], w->dims[0]}}});
  return problem.empty() ? find_dtype_mismatch({x, y}) : problem;
}

std::string check_adapter(const Program& program, const Op& op) {
  if (!has_adapter(op)) {
    return "";
  }
  if (op.accumulates != 0) {
    return "begins with an adapter's share, and cannot add to what was there";
  }
  Op adapter = adapter_of(op);
  return row_of(adapter.kind).find_shape_problem(program, adapter);
}

std::string check_linear(const Program& program, const Op& op) {
  const Buffer* w = input_of(program, op, 1);
  std::string problem = check_product(input_of(program, op, 0), w, output_of(program, op, 0));
  if (problem.empty()) {
    problem = find_mismatch({{"bias", input_of(program, op, 2), {w->dims[0]}, true}});
  }
  return problem.empty() ? check_adapter(program, op) : problem;
}

void gradient(const Op& op, Gradients& gradients) {
  BufferId x = op.inputs[0];
  BufferId w = op.inputs[1];
  BufferId bias = op.inputs.size() > 2 ? op.inputs[2] : kNoBuffer;
  BufferId dy = gradients.of(op.outputs[0]);
  // The weight's gradient comes first: afterwards x is no longer needed.
  if (gradients.wanted(w) || gradients.wanted(bias)) {
    gradients.append(OpKind::linear_backward_weight, {dy, x}, {gradients.target(w), gradients.target(bias)},
                     op.attributes);
  }
  if (gradients.wanted(x)) {
    gradients.append(OpKind::linear_backward_input, {dy, w}, {gradients.target(x)}, op.attributes);
  }
}

std::string check_backward_input(const Program& program, const Op& op) {
  std::string problem =
      check_product(output_of(program, op, 0), input_of(program, op, 1), input_of(program, op, 0));
  return problem.empty() ? check_adapter(program, op) : problem;
}

std::string check_backward_weight(const Program& program, const Op& op) {
  const Buffer* dy = input_of(program, op, 0);
  const Buffer* x = input_of(program, op, 1);
  if (dy == nullptr || x == nullptr || dy->dims.size() != 2 || x->dims.size() != 2 ||
      dy->dims[0] != x->dims[0]) {
    return "needs dy [T,out] and x [T,in]";
  }
  std::string problem = find_mismatch({{"dW", output_of(program, op, 0), {dy->dims[1], x->dims[1]}, true},
                                       {"dbias", output_of(program, op, 1), {dy->dims[1]}, true}});
  return problem.empty() ? find_dtype_mismatch({dy, x}) : problem;
}

// Of products in 8 bits beside those in 16, as seen on an H200.
constexpr double kFloat8Rate = 1.7;

OpCost product_cost(const Program& program, const Op& op, double elements_of_y, double inner) {
  return {
      .flops = 2.0 * elements_of_y * inner, .bytes = touched_bytes(program, op), .starts = kProductStarts};
}

// With w among the inputs: codes become numbers first, which are written and read again.
OpCost weight_product_cost(const Program& program, const Op& op, double elements_of_y, double inner) {
  OpCost cost = product_cost(program, op, elements_of_y, inner);
  const Buffer& w = program.buffer(op.inputs[1]);
  if (w.format.coding == Coding::fp8) {
    cost.rate = kFloat8Rate;
    // What meets the weight is written in 8 bits and read again; so is the weight, transposed, for a
    // gradient.
    cost.apart_bytes = 2.0 * static_cast<double>(program.buffer(op.inputs[0]).max_elements() +
                                                 (op.kind == OpKind::linear ? 0 : w.max_elements()));
    // Where results are scaled in passes, those that are added to are divided before as well.
    double passes = op.accumulates != 0 ? 2 : 1;
    cost.scaling_bytes = passes * 2.0 * static_cast<double>(program.buffer(op.outputs[0]).max_bytes());
  } else if (w.format.is_coded()) {
    DType dtype = program.buffer(op.inputs[0]).format.dtype;
    cost.apart_bytes = 2.0 * static_cast<double>(bytes_of(dtype, w.max_elements()));
  }
  return cost;
}

// An adapter's share is a few products more. Where it is made by itself, writing it takes about as long as
// they would at a rank of 128.
OpCost with_adapter(OpCost cost, const Program& program, const Op& op) {
  if (has_adapter(op)) {
    Op adapter = adapter_of(op);
    OpCost share = row_of(adapter.kind).cost(program, adapter);
    cost.flops += share.flops;
    cost.starts += share.starts;
  }
  return cost;
}

OpCost cost_of_linear(const Program& program, const Op& op) {
  const Buffer& w = program.buffer(op.inputs[1]);
  return with_adapter(
      weight_product_cost(program, op, static_cast<double>(program.buffer(op.outputs[0]).max_elements()),
                          static_cast<double>(columns_of(w))),
      program, op);
}

OpCost cost_of_backward_input(const Program& program, const Op& op) {
  const Buffer& w = program.buffer(op.inputs[1]);
  return with_adapter(
      weight_product_cost(program, op, static_cast<double>(program.buffer(op.outputs[0]).max_elements()),
                          static_cast<double>(rows_of(w))),
      program, op);
}

OpCost cost_of_backward_weight(const Program& program, const Op& op) {
  const Buffer& dy = program.buffer(op.inputs[0]);
  const Buffer& x = program.buffer(op.inputs[1]);
  return product_cost(program, op, static_cast<double>(dy.max_elements()),
                      static_cast<double>(columns_of(x)));
}

}  // namespace

const OpRow kLinearRow = {.kind = OpKind::linear,
                          .name = "linear",
                          .find_shape_problem = check_linear,
                          .append_gradient = gradient,
                          .cost = cost_of_linear,
                          .coded_input = 1};

const OpRow kLinearBackwardInputRow = {.kind = OpKind::linear_backward_input,
                                       .name = "linear_backward_input",
                                       .find_shape_problem = check_backward_input,
                                       .cost = cost_of_backward_input,
                                       .coded_input = 1};

const OpRow kLinearBackwardWeightRow = {.kind = OpKind::linear_backward_weight,
                                        .name = "linear_backward_weight",
                                        .find_shape_problem = check_backward_weight,
                                        .cost = cost_of_backward_weight,
                                        .rounded_gradient = 0};

}  // namespace snug
