// AdamW wiring.
#include "compile/optimizer.h"

#include "ops/table.h"
#include "program/builder.h"

namespace snug {
namespace {

// Hugging Face's Trainer decays matrices, but neither norms nor biases: those are the vectors.
float decay_of(const Buffer& parameter, const TrainingSection& training) {
  return parameter.dims.size() >= 2 ? static_cast<float>(training.weight_decay) : 0.0F;
}

}  // namespace

std::string master_name(const Buffer& parameter) {
  return parameter.dtype == DType::f32 ? parameter.name : parameter.name + ".master";
}

Program build_update(const Program& train, const TrainingSection& training) {
  Builder builder("update");
  AdamwAttributes attributes{.beta1 = training.adam_beta1,
                             .beta2 = training.adam_beta2,
                             .epsilon = static_cast<float>(training.adam_epsilon),
                             .max_norm = static_cast<float>(training.max_grad_norm),
                             .weight_decay = {}};
  std::vector<BufferId> gradients;
  std::vector<BufferId> parameters;
  std::vector<BufferId> first_moments;
  std::vector<BufferId> second_moments;
  std::vector<BufferId> copies;
  for (const Buffer& parameter : train.buffers) {
    if (!parameter.trainable) {
      continue;
    }
    const std::string& name = parameter.name;
    gradients.push_back(builder.persistent(name + ".grad", DType::f32, parameter.dims, Role::gradients));
    parameters.push_back(
        builder.persistent(master_name(parameter), DType::f32, parameter.dims, parameter.role));
    first_moments.push_back(
        builder.persistent(name + ".m", DType::f32, parameter.dims, Role::optimizer_states));
    second_moments.push_back(
        builder.persistent(name + ".v", DType::f32, parameter.dims, Role::optimizer_states));
    if (parameter.dtype != DType::f32) {
      copies.push_back(builder.persistent(name, parameter.dtype, parameter.dims, parameter.role));
    }
    attributes.weight_decay.push_back(decay_of(parameter, training));
  }
  attributes.has_copies = !copies.empty();
  BufferId scalars = builder.input("scalars", DType::f32, {fixed(4)});
  BufferId norm = builder.persistent("metrics.gradient_norm", DType::f32, {fixed(1)}, Role::batch);
  builder.append(OpKind::gradient_norm, "gradient_norm", gradients, {norm});

  std::vector<BufferId> inputs = gradients;
  inputs.insert(inputs.end(), {scalars, norm});
  std::vector<BufferId> outputs = parameters;
  for (const auto* group : {&first_moments, &second_moments, &copies}) {
    outputs.insert(outputs.end(), group->begin(), group->end());
  }
  builder.append(OpKind::adamw, "adamw", std::move(inputs), std::move(outputs), std::move(attributes));
  Program program = builder.finish();
  verify_with_shapes(program);
  return program;
}

}  // namespace snug
