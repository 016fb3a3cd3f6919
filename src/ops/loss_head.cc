// loss_head: the output product and the cross-entropy in one op, in chunks of tokens, so that the logits
// of the whole batch never exist. Its gradient computes the loss as well.
#include "ops/rows.h"
#include "ops/shapes.h"

namespace snug {
namespace {

std::string check_inputs(const Program& program, const Op& op) {
  const Buffer* x = input_of(program, op, 0);
  const Buffer* w = input_of(program, op, 1);
  if (x == nullptr || w == nullptr || x->dims.size() != 2 || w->dims.size() != 2) {
    return "needs x [T,D] and W [V,D]";
  }
  if (attributes_of<LossAttributes>(op).chunk_tokens < 0) {
    return "chunk_tokens is negative";
  }
  return find_mismatch({{"W", w, {w->dims[0], x->dims[1]}},
                        {"targets", input_of(program, op, 2), {x->dims[0]}},
                        {"scale", input_of(program, op, 3), {fixed(1)}},
                        {"loss", output_of(program, op, 0), {fixed(1)}}});
}

void gradient(const Op& op, Gradients& gradients) {
  Gradients::Target loss{op.outputs[0], true};
  gradients.append(OpKind::loss_head_gradient, op.inputs,
                   {loss, gradients.target(op.inputs[0]), gradients.target(op.inputs[1])}, op.attributes);
}

std::string check_gradient(const Program& program, const Op& op) {
  std::string problem = check_inputs(program, op);
  if (!problem.empty()) {
    return problem;
  }
  const Buffer* x = input_of(program, op, 0);
  const Buffer* w = input_of(program, op, 1);
  if (op.accumulates_output(1)) {
    return "writes dx, and cannot add to it";
  }
  return find_mismatch(
      {{"dx", output_of(program, op, 1), x->dims, true}, {"dW", output_of(program, op, 2), w->dims, true}});
}

double product_flops(const Program& program, const Op& op) {
  return 2.0 * static_cast<double>(rows_of(program.buffer(op.inputs[0]))) *
         static_cast<double>(program.buffer(op.inputs[1]).max_elements());
}

OpCost cost_of_loss(const Program& program, const Op& op) {
  return {product_flops(program, op), touched_bytes(program, op)};
}

OpCost cost_of_gradient(const Program& program, const Op& op) {
  double products = 1.0 + (output_of(program, op, 1) != nullptr ? 1.0 : 0.0) +
                    (output_of(program, op, 2) != nullptr ? 1.0 : 0.0);
  return {products * product_flops(program, op), touched_bytes(program, op)};
}

}  // namespace

const OpRow kLossHeadRow = {.kind = OpKind::loss_head,
                            .name = "loss_head",
                            .find_shape_problem = check_inputs,
                            .append_gradient = gradient,
                            .cost = cost_of_loss,
                            .gradient_includes_forward = true};

const OpRow kLossHeadGradientRow = {.kind = OpKind::loss_head_gradient,
                                    .name = "loss_head_gradient",
                                    .find_shape_problem = check_gradient,
                                    .cost = cost_of_gradient};

}  // namespace snug
