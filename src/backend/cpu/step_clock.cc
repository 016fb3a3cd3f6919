// What is kept from step to step.
#include "program/step_clock.h"

#include <cmath>

#include "backend/cpu/kernel_functions.h"
#include "program/operands.h"

namespace snug::cpu {

void scale_loss(const KernelCall& call) {
  call.outputs[0].as<float>()[0] =
      call.inputs[0].as<float>()[0] * call.inputs[1].as<StepClock>()->loss_scale(true);
}

void close_step(const KernelCall& call) {
  using In = CloseStepInput;
  using Out = CloseStepOutput;
  const auto& attributes = attributes_of<StepAttributes>(call.op);
  float norm = call.inputs[In::norm].as<float>()[0];
  StepClock& clock = *call.outputs[Out::clock].as<StepClock>();
  auto* loss_sum = call.outputs[Out::loss_sum].as<double>();
  float loss_scale = clock.loss_scale(attributes.scales_loss);
  double learning_rate =
      call.inputs[In::learning_rates].as<double>()[clock.updates % call.inputs[In::learning_rates].rows()];
  call.outputs[Out::history].as<StepRecord>()[clock.steps % call.outputs[Out::history].rows()] = {
      *loss_sum, static_cast<double>(norm) / static_cast<double>(loss_scale), learning_rate};
  *loss_sum = 0;
  clock.close_step(std::isfinite(norm), attributes.scales_loss);
  *call.outputs[Out::scalars].as<StepScalars>() = {
      .learning_rate = static_cast<float>(learning_rate),
      .bias_correction1 = bias_correction(attributes.beta1, clock.updates),
      .bias_correction2 = bias_correction(attributes.beta2, clock.updates),
      .inverse_loss_scale = 1.0F / loss_scale};
}

}  // namespace snug::cpu
