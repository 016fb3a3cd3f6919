// The update: one norm over all gradients, the step's scalars, then one pass over all trainable parameters.
#include "ops/rows.h"
#include "ops/shapes.h"

namespace snug {
namespace {

std::string check_norm(const Program& program, const Op& op) {
  if (op.inputs.empty()) {
    return "needs gradients";
  }
  return find_mismatch({{"norm", output_of(program, op, 0), {fixed(1)}}});
}

std::string check_scale_loss(const Program& program, const Op& op) {
  return find_mismatch({{"share", input_of(program, op, 0), {fixed(1)}},
                        {"clock", input_of(program, op, 1), {fixed(4)}},
                        {"scale", output_of(program, op, 0), {fixed(1)}}});
}

std::string check_close_step(const Program& program, const Op& op) {
  const Buffer* history = output_of(program, op, 3);
  if (history == nullptr || history->dims.size() != 2) {
    return "needs a history of rows";
  }
  return find_mismatch({{"learning_rates", input_of(program, op, 0), {history->dims[0]}},
                        {"norm", input_of(program, op, 1), {fixed(1)}},
                        {"clock", output_of(program, op, 0), {fixed(4)}},
                        {"scalars", output_of(program, op, 1), {fixed(4)}},
                        {"loss_sum", output_of(program, op, 2), {fixed(1)}},
                        {"history", history, {history->dims[0], fixed(3)}}});
}

// Inputs: n gradients, scalars, norm, random?. Outputs: n parameters, n first and n second moments, n
// copies?.
std::string check_adamw(const Program& program, const Op& op) {
  const auto& attributes = attributes_of<AdamwAttributes>(op);
  size_t n = attributes.weight_decay.size();
  size_t groups = attributes.has_copies ? 4 : 3;
  if (op.inputs.size() < n + 2 || op.inputs.size() > n + 3 || op.outputs.size() != groups * n) {
    return "the lists of parameters, moments and gradients differ in length";
  }
  for (size_t i = 0; i < n; ++i) {
    const Buffer* gradient = input_of(program, op, i);
    for (size_t group = 0; group < groups; ++group) {
      std::string problem = find_mismatch({{"state", output_of(program, op, group * n + i), gradient->dims}});
      if (!problem.empty()) {
        return problem;
      }
    }
  }
  const Buffer* random = op.inputs.size() == n + 3 ? input_of(program, op, n + 2) : nullptr;
  if (output_of(program, op, n)->dtype == DType::bf16 && random == nullptr) {
    return "bf16 moments need random bits";
  }
  if (random != nullptr) {
    std::string problem = find_mismatch({{"random", random, {fixed(2)}}});
    if (!problem.empty()) {
      return problem;
    }
  }
  return find_mismatch({{"scalars", input_of(program, op, n), {fixed(4)}},
                        {"norm", input_of(program, op, n + 1), {fixed(1)}}});
}

OpCost cost_of_norm(const Program& program, const Op& op) {
  double bytes = touched_bytes(program, op);
  return {0.5 * bytes, bytes};
}

// Everything is read and written back.
OpCost cost_of_update(const Program& program, const Op& op) {
  double bytes = 2.0 * touched_bytes(program, op);
  return {bytes, bytes};
}

}  // namespace

const OpRow kScaleLossRow = {.kind = OpKind::scale_loss,
                             .name = "scale_loss",
                             .find_shape_problem = check_scale_loss,
                             .cost = cost_of_update};

const OpRow kCloseStepRow = {.kind = OpKind::close_step,
                             .name = "close_step",
                             .find_shape_problem = check_close_step,
                             .cost = cost_of_update};

const OpRow kGradientNormRow = {.kind = OpKind::gradient_norm,
                                .name = "gradient_norm",
                                .find_shape_problem = check_norm,
                                .cost = cost_of_norm};

const OpRow kAdamwRow = {
    .kind = OpKind::adamw, .name = "adamw", .find_shape_problem = check_adamw, .cost = cost_of_update};

}  // namespace snug
