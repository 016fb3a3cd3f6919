// The update: one norm over all gradients, the step's scalars, then one pass over all trainable parameters.
#include <span>

#include "ops/rows.h"
#include "ops/shapes.h"
#include "program/operands.h"
#include "program/step_clock.h"

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
                        {"clock", input_of(program, op, 1), {fixed(kClockWords)}},
                        {"scale", output_of(program, op, 0), {fixed(1)}}});
}

std::string check_close_step(const Program& program, const Op& op) {
  const Buffer* history = output_of(program, op, CloseStepOutput::history);
  if (history == nullptr || history->dims.size() != 2) {
    return "needs a history of rows";
  }
  using In = CloseStepInput;
  using Out = CloseStepOutput;
  return find_mismatch({{"learning_rates", input_of(program, op, In::learning_rates), {history->dims[0]}},
                        {"norm", input_of(program, op, In::norm), {fixed(1)}},
                        {"clock", output_of(program, op, Out::clock), {fixed(kClockWords)}},
                        {"scalars", output_of(program, op, Out::scalars), {fixed(kScalarNumbers)}},
                        {"loss_sum", output_of(program, op, Out::loss_sum), {fixed(1)}},
                        {"history", history, {history->dims[0], fixed(kRecordNumbers)}}});
}

// Of both halves of an fp32 number, or of a master and its copy.
std::string find_dtype_problem(Beside kind, const Buffer& parameter, const Buffer* beside) {
  if (kind == Beside::rest && (parameter.format != DType::bf16 || beside->format != DType::i16)) {
    return "\"" + parameter.name + "\" and its rest are not bf16 and int16";
  }
  if (kind == Beside::compute_copy && parameter.format != DType::f32) {
    return "\"" + parameter.name + "\" has a compute copy and is not fp32";
  }
  return "";
}

// What the updates by AdamW have in common.
std::string check_lists(const Program& program, const Op& op) {
  AdamwPlaces places(attributes_of<AdamwAttributes>(op));
  if (op.inputs.size() <= places.norm() || op.outputs.size() != places.output_count()) {
    return "the lists of parameters, moments and gradients differ in length";
  }
  for (size_t i = 0; i < places.count(); ++i) {
    const Dims& dims = input_of(program, op, places.gradient(i))->dims;
    std::string problem = find_mismatch(
        {{"parameter", output_of(program, op, places.parameter(i)), dims},
         {"first moment", output_of(program, op, places.first_moment(i)), dims},
         {"second moment", output_of(program, op, places.second_moment(i)), dims},
         {"copy or rest", output_of(program, op, places.beside(i)), dims, !places.has_beside()}});
    if (problem.empty()) {
      problem = find_dtype_problem(places.kind_beside(), *output_of(program, op, places.parameter(i)),
                                   output_of(program, op, places.beside(i)));
    }
    if (!problem.empty()) {
      return problem;
    }
  }
  return find_mismatch({{"scalars", input_of(program, op, places.scalars()), {fixed(kScalarNumbers)}},
                        {"norm", input_of(program, op, places.norm()), {fixed(1)}},
                        {"random", input_of(program, op, places.random()), {fixed(2)}, true}});
}

std::string check_adamw(const Program& program, const Op& op) {
  if (std::string problem = check_lists(program, op); !problem.empty()) {
    return problem;
  }
  AdamwPlaces places(attributes_of<AdamwAttributes>(op));
  const Format& moments = output_of(program, op, places.first_moment(0))->format;
  if (moments.is_coded()) {
    return "moments are codes";
  }
  if (moments == DType::bf16 && places.kind_beside() == Beside::rest) {
    return "parameters with a rest go with fp32 moments";
  }
  if (moments == DType::bf16 && input_of(program, op, places.random()) == nullptr) {
    return "bf16 moments need random bits";
  }
  return op.inputs.size() <= places.random() + 1 ? "" : "has more inputs than it knows";
}

std::string check_adamw_8bit(const Program& program, const Op& op) {
  if (std::string problem = check_lists(program, op); !problem.empty()) {
    return problem;
  }
  AdamwPlaces places(attributes_of<AdamwAttributes>(op));
  if (places.kind_beside() == Beside::rest) {
    return "bf16 parameters are rounded by chance, and have no rest";
  }
  for (size_t i = 0; i < places.count(); ++i) {
    const Buffer& first = *output_of(program, op, places.first_moment(i));
    const Buffer& second = *output_of(program, op, places.second_moment(i));
    bool is_8bit = first.format == kFirstMoment8bit && second.format == kSecondMoment8bit;
    if (!is_8bit || first.parts.size() != second.parts.size()) {
      return "the moments \"" + first.name + "\" and \"" + second.name + "\" are not codes of one kind";
    }
  }
  return find_mismatch(
      {{"random", input_of(program, op, places.random()), {fixed(2)}},
       {"maps", input_of(program, op, places.maps()), {fixed(2), fixed(kDynamicMapEntries)}}});
}

std::string check_adafactor(const Program& program, const Op& op) {
  const auto& attributes = attributes_of<AdafactorAttributes>(op);
  AdafactorPlaces places(attributes);
  if (op.inputs.size() <= places.clock() || op.outputs.size() != places.output_count()) {
    return "the lists of parameters, mean squares and gradients differ in length";
  }
  std::vector<int64_t> states(places.count());
  for (const FactoredTensor& tensor : attributes.tensors) {
    states[tensor.parameter] += tensor.states();
  }
  for (size_t i = 0; i < places.count(); ++i) {
    const Dims& dims = input_of(program, op, places.gradient(i))->dims;
    std::string problem = find_mismatch(
        {{"parameter", output_of(program, op, places.parameter(i)), dims},
         {"mean squares", output_of(program, op, places.mean_squares(i)), {fixed(states[i])}},
         {"copy or rest", output_of(program, op, places.beside(i)), dims, !places.has_beside()}});
    if (problem.empty()) {
      problem = find_dtype_problem(places.kind_beside(), *output_of(program, op, places.parameter(i)),
                                   output_of(program, op, places.beside(i)));
    }
    if (!problem.empty()) {
      return problem;
    }
  }
  bool is_rounded =
      output_of(program, op, places.parameter(0))->format == DType::bf16 && !places.has_beside();
  return find_mismatch({{"scalars", input_of(program, op, places.scalars()), {fixed(kScalarNumbers)}},
                        {"norm", input_of(program, op, places.norm()), {fixed(1)}},
                        {"clock", input_of(program, op, places.clock()), {fixed(kClockWords)}},
                        {"random", input_of(program, op, places.random()), {fixed(2)}, !is_rounded}});
}

// Parameters, moments, copies and rests move on, or stay as they are where the gradients are not finite.
Effect adamw_output_effect(const Op& /*op*/, size_t /*output*/) {
  return Effect::update;
}

// The clock goes on, the history gets one row more, and the sum of the losses, once noted there, begins anew.
Effect close_step_output_effect(const Op& /*op*/, size_t output) {
  return output == CloseStepOutput::scalars ? Effect::write : Effect::update;
}

OpCost cost_of_norm(const Program& program, const Op& op) {
  double bytes = touched_bytes(program, op);
  return {0.5 * bytes, bytes};
}

// Inputs are read, outputs read and written back.
OpCost cost_of_update(const Program& program, const Op& op) {
  double bytes = touched_bytes(program, op);
  for (BufferId id : op.outputs) {
    bytes += static_cast<double>(program.buffer(id).max_bytes());
  }
  return {bytes, bytes};
}

// Gradients are read for the means of squares, for the size of the update, and for the update.
OpCost cost_of_adafactor(const Program& program, const Op& op) {
  OpCost cost = cost_of_update(program, op);
  size_t count = attributes_of<AdafactorAttributes>(op).weight_decay.size();
  for (BufferId id : std::span(op.inputs).first(count)) {
    auto bytes = static_cast<double>(program.buffer(id).max_bytes());
    cost.bytes += 2 * bytes;
    cost.flops += 2 * bytes;
  }
  return cost;
}

}  // namespace

const OpRow kScaleLossRow = {.kind = OpKind::scale_loss,
                             .name = "scale_loss",
                             .find_shape_problem = check_scale_loss,
                             .cost = cost_of_update};

const OpRow kCloseStepRow = {.kind = OpKind::close_step,
                             .name = "close_step",
                             .find_shape_problem = check_close_step,
                             .cost = cost_of_update,
                             .output_effect = close_step_output_effect};

const OpRow kGradientNormRow = {.kind = OpKind::gradient_norm,
                                .name = "gradient_norm",
                                .find_shape_problem = check_norm,
                                .cost = cost_of_norm};

const OpRow kAdamwRow = {.kind = OpKind::adamw,
                         .name = "adamw",
                         .find_shape_problem = check_adamw,
                         .cost = cost_of_update,
                         .output_effect = adamw_output_effect};

const OpRow kAdamw8bitRow = {.kind = OpKind::adamw_8bit,
                             .name = "adamw_8bit",
                             .find_shape_problem = check_adamw_8bit,
                             .cost = cost_of_update,
                             .output_effect = adamw_output_effect,
                             .coded_outputs = true};

const OpRow kAdafactorRow = {.kind = OpKind::adafactor,
                             .name = "adafactor",
                             .find_shape_problem = check_adafactor,
                             .cost = cost_of_adafactor,
                             .output_effect = adamw_output_effect};

}  // namespace snug
