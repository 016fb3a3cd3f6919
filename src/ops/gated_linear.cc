// gated_linear and its gradient: a product whose result a gated activation, or its gradient, reads at once.
#include "ops/gated_linear.h"

#include "base/check.h"
#include "ops/adapted_linear.h"
#include "ops/rows.h"
#include "ops/shapes.h"
#include "program/operands.h"

namespace snug {
namespace {

using BackwardIn = GatedLinearBackwardInput;
using BackwardOut = GatedLinearBackwardOutput;

bool is_backward(const Op& joined) {
  SNUG_CHECK(joined.kind == OpKind::gated_linear || joined.kind == OpKind::gated_linear_backward,
             "no product with a gated activation");
  return joined.kind == OpKind::gated_linear_backward;
}

// What the gradient of the activation begins with, and ends as on backends that make the two ops apart.
BufferId gated_gradient(const Op& op) {
  return op.has_input(BackwardIn::dgated)    ? op.inputs[BackwardIn::dgated]
         : op.has_output(BackwardOut::gated) ? op.outputs[BackwardOut::gated]
                                             : kNoBuffer;
}

std::string check_forward(const Program& program, const Op& op) {
  Op product = product_of(op);
  std::string problem = row_of(product.kind).find_shape_problem(program, product);
  if (!problem.empty()) {
    return problem;
  }
  Op gate = gate_of(op);
  return op.has_output(1) ? row_of(gate.kind).find_shape_problem(program, gate) : "";
}

std::string check_backward(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, BackwardIn::x);
  const Buffer* dy = input_of(program, op, BackwardIn::dy);
  const Buffer* w = input_of(program, op, BackwardIn::w);
  if (x == nullptr || dy == nullptr || w == nullptr || x->dims.size() != 2 || dy->dims.size() != 2 ||
      w->dims.size() != 2) {
    return "needs x [T,2F], dy [T,out] and W [out,F]";
  }
  const Buffer* ddown = input_of(program, op, BackwardIn::ddown);
  const Buffer* a = input_of(program, op, BackwardIn::a);
  if ((ddown == nullptr) != (a == nullptr) || (ddown != nullptr && op.has_input(BackwardIn::dgated))) {
    return "begins with an adapter's share, or is added to one, but not both";
  }
  Dim rank = a != nullptr ? a->dims[0] : fixed(0);
  Dims narrow = {dy->dims[0], w->dims[1]};
  const Buffer* dgated = input_of(program, op, BackwardIn::dgated);
  const Buffer* gated = output_of(program, op, BackwardOut::gated);
  const Buffer* dx = output_of(program, op, BackwardOut::dx);
  std::string problem = find_mismatch({{"x", x, {dy->dims[0], fixed(2 * w->dims[1].max)}},
                                       {"dy", dy, {dy->dims[0], w->dims[0]}},
                                       {"dgated", dgated, narrow, true},
                                       {"gradient of the down product", ddown, {dy->dims[0], rank}, true},
                                       {"A", a, {rank, w->dims[1]}, true},
                                       {"dx", dx, x->dims},
                                       {"gated", gated, narrow, true}});
  if (problem.empty() && op.accumulates != 0) {
    problem = "writes its gradient, and cannot add to it";
  }
  return problem.empty() ? find_dtype_mismatch({x, dy, dgated, ddown, dx, gated}) : problem;
}

Effect backward_input_effect(const Op& /*op*/, size_t input) {
  return input == BackwardIn::dgated ? Effect::update : Effect::read;
}

// The rank of the adapter whose share the product begins with; 0: it does not.
double adapter_rank(const Program& program, const Op& product) {
  if (!has_adapter(product)) {
    return 0;
  }
  return product.kind == OpKind::linear
             ? static_cast<double>(attributes_of<LinearAttributes>(product).adapter.rank)
             : static_cast<double>(columns_of(program.buffer(product.inputs[LinearBackwardInput::ddown])));
}

// As a product and, behind it, a pass over memory: what most cards make of it. `moved` is what the pass reads
// and writes. An adapter's share is a few products more (ops/linear.cc).
OpCost joined_cost(const Program& program, const Op& op, const Buffer& product, double inner, double moved) {
  Op factors = product_of(op);
  double rank = adapter_rank(program, factors);
  double elements = static_cast<double>(product.max_elements());
  double bytes = static_cast<double>(bytes_of(product.format.dtype, product.max_elements()));
  return {.flops = 2.0 * elements * (inner + rank),
          .bytes = bytes + static_cast<double>(program.buffer(factors.inputs[0]).max_bytes() +
                                               program.buffer(factors.inputs[1]).max_bytes()),
          .starts = rank > 0 ? 2 * kProductStarts + 1 : kProductStarts + 1,
          .apart_bytes = moved};
}

OpCost cost_of_forward(const Program& program, const Op& op) {
  Op gate = gate_of(op);
  return joined_cost(program, op, program.buffer(op.outputs[0]),
                     static_cast<double>(columns_of(program.buffer(op.inputs[1]))),
                     op.has_output(1) ? touched_bytes(program, gate) : 0);
}

OpCost cost_of_backward(const Program& program, const Op& op) {
  const Buffer& x = program.buffer(op.inputs[BackwardIn::x]);
  const Buffer& w = program.buffer(op.inputs[BackwardIn::w]);
  Buffer product{.name = {}, .format = x.format, .dims = {x.dims[0], w.dims[1]}};
  double narrow = static_cast<double>(bytes_of(x.format.dtype, product.max_elements()));
  double passes = op.has_output(BackwardOut::gated) ? 6 : 5;  // x and dx are twice as wide
  return joined_cost(program, op, product, static_cast<double>(rows_of(w)), passes * narrow);
}

}  // namespace

Op product_of(const Op& joined) {
  bool backward = is_backward(joined);
  Op product = joined;
  product.kind = backward ? OpKind::linear_backward_input : OpKind::linear;
  product.attributes = attributes_of<GatedLinearAttributes>(joined).product;
  if (backward) {
    product.inputs.erase(product.inputs.begin(), product.inputs.begin() + BackwardIn::dy);
    product.outputs = {gated_gradient(joined)};
    product.accumulates = joined.has_input(BackwardIn::dgated) ? 1 : 0;
  } else {
    product.outputs = {joined.outputs[0]};
  }
  return product;
}

Op gate_of(const Op& joined) {
  bool backward = is_backward(joined);
  Op gate = joined;
  gate.kind = backward ? OpKind::gated_activation_backward : OpKind::gated_activation;
  gate.attributes = attributes_of<GatedLinearAttributes>(joined).gate;
  gate.accumulates = 0;
  if (backward) {
    gate.inputs = {joined.inputs[BackwardIn::x], gated_gradient(joined)};
  } else {
    gate.inputs = {joined.outputs[0]};
    gate.outputs = {joined.outputs[1]};
  }
  return gate;
}

const OpRow kGatedLinearRow = {.kind = OpKind::gated_linear,
                               .name = "gated_linear",
                               .find_shape_problem = check_forward,
                               .cost = cost_of_forward};

const OpRow kGatedLinearBackwardRow = {.kind = OpKind::gated_linear_backward,
                                       .name = "gated_linear_backward",
                                       .find_shape_problem = check_backward,
                                       .cost = cost_of_backward,
                                       .in_place = 2,
                                       .input_effect = backward_input_effect};

}  // namespace snug
