// What is kept from step to step.
#include "backend/step_clock.h"

#include <cmath>

#include "backend/cpu/kernel_functions.h"

namespace snug::cpu {

void scale_loss(const KernelCall& call) {
  call.outputs[0].as<float>()[0] =
      call.inputs[0].as<float>()[0] * call.inputs[1].as<StepClock>()->loss_scale(true);
}

void close_step(const KernelCall& call) {
  const auto& attributes = attributes_of<StepAttributes>(call.op);
  float norm = call.inputs[1].as<float>()[0];
  StepClock& clock = *call.outputs[0].as<StepClock>();
  auto* loss_sum = call.outputs[2].as<double>();
  float loss_scale = clock.loss_scale(attributes.scales_loss);
  double learning_rate = call.inputs[0].as<double>()[clock.updates % call.inputs[0].rows()];
  call.outputs[3].as<StepRecord>()[clock.steps % call.outputs[3].rows()] = {
      *loss_sum, static_cast<double>(norm) / static_cast<double>(loss_scale), learning_rate};
  *loss_sum = 0;
  clock.close_step(std::isfinite(norm), attributes.scales_loss);
  *call.outputs[1].as<StepScalars>() = {.learning_rate = static_cast<float>(learning_rate),
                                        .bias_correction1 = bias_correction(attributes.beta1, clock.updates),
                                        .bias_correction2 = bias_correction(attributes.beta2, clock.updates),
                                        .inverse_loss_scale = 1.0F / loss_scale};
}

}  // namespace snug::cpu
