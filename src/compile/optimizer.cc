// The optimizers' wiring, and what goes with it from step to step.
#include "compile/optimizer.h"

#include <algorithm>

#include "base/check.h"
#include "base/dynamic_map.h"
#include "program/builder.h"
#include "program/names.h"
#include "program/step_clock.h"

namespace snug {
namespace {

// Hugging Face's Trainer decays neither norms nor what has "bias" in its name: the vectors, and one matrix,
// T5's relative_attention_bias.
bool is_decayed(const Buffer& parameter) {
  bool is_bias = std::any_of(parameter.parts.begin(), parameter.parts.end(), [](const TensorPart& part) {
    return part.names.front().find("bias") != std::string::npos;
  });
  return parameter.dims.size() >= 2 && !is_bias;
}

}  // namespace

Program add_loss_scale(Program train) {
  Builder builder(std::move(train));
  BufferId clock = builder.persistent(kClock, DType::i64, {fixed(kClockWords)}, Role::optimizer_states);
  BufferId share = builder.input(kShare, DType::f32, {fixed(1)});
  BufferId scale = builder.program().find(kScale);
  builder.program().buffer(scale).lifetime = Lifetime::temporary;
  builder.append(OpKind::scale_loss, "scale_loss", {share, clock}, {scale});
  std::vector<Op>& ops = builder.program().ops;
  std::rotate(ops.begin(), ops.end() - 1, ops.end());
  return builder.finish();
}

namespace {

// The buffers of an update, list by list.
struct UpdateLists {
  std::vector<const Buffer*> trained;  // of the training program
  std::vector<BufferId> gradients;
  std::vector<BufferId> parameters;
  Beside kind_beside = Beside::nothing;
  std::vector<BufferId> beside;
  std::vector<float> weight_decay;
};

// bf16 is the upper half of fp32. fp16 is not, and its small range would lose small ones: it has a master
// whatever the states are.
Beside kind_beside(DType parameter, OptimizerStates states) {
  if (parameter == DType::f16) {
    return Beside::compute_copy;
  }
  return parameter == DType::bf16 && states == OptimizerStates::fp32 ? Beside::rest : Beside::nothing;
}

// The parameter, as the update has it, and what is beside it.
void add_parameter(Builder& builder, const Buffer& parameter, UpdateLists& lists) {
  auto add = [&](const std::string& name, DType dtype, Role role) {
    return builder.persistent(name, dtype, parameter.dims, role, Origin::program);
  };
  BufferId computed = add(parameter.name, parameter.dtype(), parameter.role);
  switch (lists.kind_beside) {
    case Beside::nothing:
      lists.parameters.push_back(computed);
      return;
    case Beside::compute_copy:
      lists.parameters.push_back(add(master_name(parameter.name), DType::f32, Role::master_bits));
      lists.beside.push_back(computed);
      return;
    case Beside::rest:
      lists.parameters.push_back(computed);
      lists.beside.push_back(add(rest_name(parameter.name), DType::i16, Role::master_bits));
      return;
  }
}

UpdateLists make_lists(Builder& builder, const Program& train, const TrainingSection& training) {
  UpdateLists lists;
  for (const Buffer& parameter : train.buffers) {
    if (!parameter.trainable) {
      continue;
    }
    const std::string& name = parameter.name;
    Beside kind = kind_beside(parameter.dtype(), training.optimizer_states);
    SNUG_CHECK(lists.trained.empty() || kind == lists.kind_beside, "one update has parameters of one kind");
    lists.kind_beside = kind;
    lists.trained.push_back(&parameter);
    BufferId gradient = train.find(gradient_name(name));  // none: no op reaches it, and it stays zero
    lists.gradients.push_back(builder.persistent(
        gradient_name(name), gradient == kNoBuffer ? DType::f32 : train.buffer(gradient).dtype(),
        parameter.dims, Role::gradients));
    add_parameter(builder, parameter, lists);
    lists.weight_decay.push_back(is_decayed(parameter) ? static_cast<float>(training.weight_decay) : 0);
  }
  return lists;
}

bool computes_in_fp16(const Program& program) {
  return std::any_of(program.buffers.begin(), program.buffers.end(),
                     [](const Buffer& buffer) { return buffer.format == DType::f16; });
}

// What the codes of both moments stand for.
BufferId add_state_maps(Builder& builder) {
  BufferId id = builder.persistent(kStateMaps, DType::f32, {fixed(2), fixed(kDynamicMapEntries)},
                                   Role::state_maps, Origin::constant);
  std::vector<float>& values = builder.program().buffer(id).constant;
  for (bool is_signed : {true, false}) {
    DynamicMap map = dynamic_map(is_signed);
    values.insert(values.end(), map.begin(), map.end());
  }
  return id;
}

struct MomentFormats {
  Format first;
  Format second;
};

MomentFormats moment_formats(OptimizerStates states) {
  switch (states) {
    case OptimizerStates::bf16:
      return {DType::bf16, DType::bf16};
    case OptimizerStates::eight_bits:
      return {kFirstMoment8bit, kSecondMoment8bit};
    default:
      return {DType::f32, DType::f32};
  }
}

void append_to(std::vector<BufferId>& all, const std::vector<BufferId>& more) {
  all.insert(all.end(), more.begin(), more.end());
}

// What the optimizer reads of a step.
struct StepBuffers {
  BufferId scalars;
  BufferId norm;
  BufferId clock;
};

void append_adamw(Builder& builder, const UpdateLists& lists, const StepBuffers& step,
                  const TrainingSection& training) {
  AdamwAttributes attributes{.beta1 = training.adam_beta1,
                             .beta2 = training.adam_beta2,
                             .epsilon = static_cast<float>(training.adam_epsilon),
                             .max_norm = static_cast<float>(training.max_grad_norm),
                             .weight_decay = lists.weight_decay,
                             .beside = lists.kind_beside};
  MomentFormats formats = moment_formats(training.optimizer_states);
  auto moment = [&](const std::string& name, const Format& format, const Buffer& parameter) {
    BufferId id = builder.persistent(name, format, parameter.dims, Role::optimizer_states);
    if (format.is_coded()) {  // tensor by tensor
      builder.program().buffer(id).parts = parameter.parts;
    }
    return id;
  };
  std::vector<BufferId> first_moments;
  std::vector<BufferId> second_moments;
  for (const Buffer* parameter : lists.trained) {
    first_moments.push_back(moment(first_moment_name(parameter->name), formats.first, *parameter));
    second_moments.push_back(moment(second_moment_name(parameter->name), formats.second, *parameter));
  }
  std::vector<BufferId> inputs = lists.gradients;
  append_to(inputs, {step.scalars, step.norm});
  if (training.optimizer_states != OptimizerStates::fp32) {
    inputs.push_back(builder.input(kRoundingRandom, DType::i64, {fixed(2)}));
  }
  bool is_8bit = training.optimizer_states == OptimizerStates::eight_bits;
  if (is_8bit) {
    inputs.push_back(add_state_maps(builder));
  }
  std::vector<BufferId> outputs = lists.parameters;
  append_to(outputs, first_moments);
  append_to(outputs, second_moments);
  append_to(outputs, lists.beside);
  builder.append(is_8bit ? OpKind::adamw_8bit : OpKind::adamw, is_8bit ? "adamw_8bit" : "adamw",
                 std::move(inputs), std::move(outputs), std::move(attributes));
}

// The tensors of the file within a parameter; returns how many mean squares they have.
int64_t append_tensors(const Buffer& parameter, size_t index, std::vector<FactoredTensor>& tensors) {
  bool is_matrix = parameter.dims.size() == 2;
  int64_t columns = is_matrix ? parameter.dims[1].max : 0;
  int64_t states = 0;
  auto add = [&](int64_t row_begin, int64_t rows) {
    tensors.push_back({.parameter = index,
                       .first_element = row_begin * (is_matrix ? columns : 1),
                       .first_state = states,
                       .rows = rows,
                       .columns = columns});
    states += tensors.back().states();
  };
  for (const TensorPart& part : parameter.parts) {
    add(part.row_begin, part.rows);
  }
  if (parameter.parts.empty()) {
    add(0, parameter.dims[0].max);
  }
  return states;
}

void append_adafactor(Builder& builder, const UpdateLists& lists, const StepBuffers& step,
                      const TrainingSection& training) {
  AdafactorAttributes attributes{.max_norm = static_cast<float>(training.max_grad_norm),
                                 .weight_decay = lists.weight_decay,
                                 .tensors = {},
                                 .beside = lists.kind_beside};
  std::vector<BufferId> mean_squares;
  for (size_t i = 0; i < lists.trained.size(); ++i) {
    int64_t states = append_tensors(*lists.trained[i], i, attributes.tensors);
    mean_squares.push_back(builder.persistent(second_moment_name(lists.trained[i]->name), DType::f32,
                                              {fixed(states)}, Role::optimizer_states));
  }
  std::vector<BufferId> inputs = lists.gradients;
  append_to(inputs, {step.scalars, step.norm, step.clock});
  if (training.optimizer_states != OptimizerStates::fp32) {
    inputs.push_back(builder.input(kRoundingRandom, DType::i64, {fixed(2)}));
  }
  std::vector<BufferId> outputs = lists.parameters;
  append_to(outputs, mean_squares);
  append_to(outputs, lists.beside);
  builder.append(OpKind::adafactor, "adafactor", std::move(inputs), std::move(outputs),
                 std::move(attributes));
}

}  // namespace

Program build_update(const Program& train, const TrainingSection& training) {
  Builder builder(kUpdatePhase);
  UpdateLists lists = make_lists(builder, train, training);
  BufferId norm = builder.persistent(kGradientNorm, DType::f32, {fixed(1)}, Role::batch);
  builder.append(OpKind::gradient_norm, "gradient_norm", lists.gradients, {norm});

  BufferId learning_rates = builder.input(kLearningRates, DType::f64, {fixed(kHistorySteps)});
  BufferId clock = builder.persistent(kClock, DType::i64, {fixed(kClockWords)}, Role::optimizer_states);
  BufferId scalars = builder.temporary("scalars", DType::f32, {fixed(kScalarNumbers)});
  BufferId loss_sum = builder.persistent(kLossSum, DType::f64, {fixed(1)}, Role::batch);
  BufferId history =
      builder.persistent(kHistory, DType::f64, {fixed(kHistorySteps), fixed(kRecordNumbers)}, Role::batch);
  builder.append(OpKind::close_step, "close_step", {learning_rates, norm},
                 {clock, scalars, loss_sum, history},
                 StepAttributes{training.adam_beta1, training.adam_beta2, computes_in_fp16(train)});

  StepBuffers step{.scalars = scalars, .norm = norm, .clock = clock};
  if (training.optim == Optimizer::adafactor) {
    append_adafactor(builder, lists, step, training);
  } else {
    append_adamw(builder, lists, step, training);
  }
  return builder.finish();
}

}  // namespace snug
