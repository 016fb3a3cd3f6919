// Ops that treat every element alike: add, dropout, copy, fill.
#include <algorithm>

#include "ops/rows.h"
#include "ops/shapes.h"

namespace snug {
namespace {

std::string check_add(const Program& program, const Op& op) {
  const Buffer* a = input_of(program, op, 0);
  const Buffer* b = input_of(program, op, 1);
  const Buffer* y = output_of(program, op, 0);
  if (a == nullptr) {
    return "needs a";
  }
  std::string problem = find_mismatch({{"b", b, a->dims}, {"y", y, a->dims}});
  return problem.empty() ? find_dtype_mismatch({a, b, y}) : problem;
}

void add_gradient(const Op& op, Gradients& gradients) {
  gradients.share(op.inputs[0], op.outputs[0]);
  gradients.share(op.inputs[1], op.outputs[0]);
}

std::string check_dropout(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const Buffer* y = output_of(program, op, 0);
  if (x == nullptr) {
    return "needs x";
  }
  std::string problem = find_mismatch({{"random", input_of(program, op, 1), {fixed(3)}}, {"y", y, x->dims}});
  return problem.empty() ? find_dtype_mismatch({x, y}) : problem;
}

// Dropout multiplies by a mask that the op makes from counters; so does its gradient, with the same ones.
void dropout_gradient(const Op& op, Gradients& gradients) {
  if (gradients.wanted(op.inputs[0])) {
    Gradients::Target target = gradients.target(op.inputs[0]);
    gradients.append(OpKind::dropout, {gradients.of(op.outputs[0]), op.inputs[1]}, {target}, op.attributes);
  }
}

std::string check_copy(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  if (x == nullptr) {
    return "needs x";
  }
  return find_mismatch({{"y", output_of(program, op, 0), x->dims}});
}

std::string check_fill(const Program& program, const Op& op) {
  if (!op.inputs.empty() || output_of(program, op, 0) == nullptr) {
    return "has outputs only";
  }
  // Bytes of zeros are zeros in every coding: their scales are.
  bool writes_codes = std::any_of(op.outputs.begin(), op.outputs.end(),
                                  [&](BufferId id) { return program.buffer(id).format.is_coded(); });
  bool is_zero = attributes_of<FillAttributes>(op).value == 0.0F;
  return writes_codes && !is_zero ? "fills codes with another value than 0" : "";
}

OpCost one_pass(const Program& program, const Op& op) {
  return streaming_cost(program, op, 1);
}

}  // namespace

const OpRow kAddRow = {.kind = OpKind::add,
                       .name = "add",
                       .find_shape_problem = check_add,
                       .append_gradient = add_gradient,
                       .cost = one_pass,
                       .in_place = 1};

const OpRow kDropoutRow = {.kind = OpKind::dropout,
                           .name = "dropout",
                           .find_shape_problem = check_dropout,
                           .append_gradient = dropout_gradient,
                           .cost = one_pass,
                           .in_place = 1};

const OpRow kCopyRow = {
    .kind = OpKind::copy, .name = "copy", .find_shape_problem = check_copy, .cost = one_pass};

const OpRow kFillRow = {.kind = OpKind::fill,
                        .name = "fill",
                        .find_shape_problem = check_fill,
                        .cost = one_pass,
                        .coded_outputs = true};

}  // namespace snug
