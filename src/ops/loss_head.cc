// loss_head: the output product and the cross-entropy of the tokens that have a target in one op, in chunks,
// so that the logits of the whole batch never exist. Its gradient computes the loss as well.
#include "ops/rows.h"
#include "ops/shapes.h"
#include "program/operands.h"

namespace snug {
namespace {

using In = LossHeadInput;
using Out = LossHeadOutput;

std::string check_inputs(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, In::x);
  const Buffer* w = input_of(program, op, In::w);
  if (x == nullptr || w == nullptr || x->dims.size() != 2 || w->dims.size() != 2) {
    return "needs x [T,D] and W [V,D]";
  }
  if (attributes_of<LossAttributes>(op).chunk_tokens < 0) {
    return "chunk_tokens is negative";
  }
  const Buffer* targets = input_of(program, op, In::targets);
  if (targets == nullptr || targets->dims.size() != 1) {
    return "needs targets [R]";
  }
  if (targets->dims[0].max > x->dims[0].max) {
    return "has more targets than tokens";
  }
  return find_mismatch({{"W", w, {w->dims[0], x->dims[1]}},
                        {"rows", input_of(program, op, In::rows), targets->dims},
                        {"scale", input_of(program, op, In::scale), {fixed(1)}},
                        {"loss", output_of(program, op, Out::loss_sum), {fixed(1)}}});
}

std::string check_loss(const Program& program, const Op& op) {
  std::string problem = check_inputs(program, op);
  bool counts = output_of(program, op, Out::hits) != nullptr;
  if (!problem.empty() || !counts) {
    return problem;
  }
  if (!op.accumulates_output(Out::hits)) {
    return "adds to hits, and cannot write it";
  }
  return find_mismatch({{"hits", output_of(program, op, Out::hits), {fixed(1)}}});
}

void gradient(const Op& op, Gradients& gradients) {
  Gradients::Target loss{op.outputs[Out::loss_sum], true};
  gradients.append(OpKind::loss_head_gradient, op.inputs,
                   {loss, gradients.target(op.inputs[In::x]), gradients.target(op.inputs[In::w])},
                   op.attributes);
}

std::string check_gradient(const Program& program, const Op& op) {
  std::string problem = check_inputs(program, op);
  if (!problem.empty()) {
    return problem;
  }
  const Buffer* x = input_of(program, op, In::x);
  const Buffer* w = input_of(program, op, In::w);
  if (op.accumulates_output(Out::dx)) {
    return "writes dx, and cannot add to it";
  }
  return find_mismatch({{"dx", output_of(program, op, Out::dx), x->dims, true},
                        {"dW", output_of(program, op, Out::dw), w->dims, true}});
}

double product_flops(const Program& program, const Op& op) {
  return 2.0 * static_cast<double>(rows_of(program.buffer(op.inputs[In::targets]))) *
         static_cast<double>(program.buffer(op.inputs[In::w]).max_elements());
}

// Between the products logits are written and read in fp32.
constexpr double kHeadEfficiency = 0.8;

OpCost cost_of_loss(const Program& program, const Op& op) {
  return {product_flops(program, op), touched_bytes(program, op), kHeadEfficiency, kProductStarts};
}

OpCost cost_of_gradient(const Program& program, const Op& op) {
  double products = 1.0 + (output_of(program, op, Out::dx) != nullptr ? 1.0 : 0.0) +
                    (output_of(program, op, Out::dw) != nullptr ? 1.0 : 0.0);
  return {products * product_flops(program, op), touched_bytes(program, op), kHeadEfficiency, kProductStarts};
}

}  // namespace

const OpRow kLossHeadRow = {.kind = OpKind::loss_head,
                            .name = "loss_head",
                            .find_shape_problem = check_loss,
                            .append_gradient = gradient,
                            .cost = cost_of_loss,
                            .is_loss = true,
                            .gradient_includes_forward = true};

const OpRow kLossHeadGradientRow = {.kind = OpKind::loss_head_gradient,
                                    .name = "loss_head_gradient",
                                    .find_shape_problem = check_gradient,
                                    .cost = cost_of_gradient,
                                    .rounded_gradient = Out::dw};

}  // namespace snug
