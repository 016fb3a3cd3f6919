// What is kept from step to step (program/step_clock.h): one thread each, so that no step waits for the host.
#include "program/step_clock.h"

#include "backend/cuda/check.h"
#include "backend/cuda/kernel_functions.h"
#include "program/operands.h"

namespace snug::cuda {
namespace {

__global__ void scale_loss_kernel(const float* share, const StepClock* clock, float* scale) {
  *scale = *share * clock->loss_scale(true);
}

struct StepBuffers {
  const double* learning_rates;
  int64_t learning_rate_count;
  const float* norm;
  StepClock* clock;
  StepScalars* scalars;
  double* loss_sum;
  StepRecord* history;
  int64_t history_rows;
};

__global__ void close_step_kernel(StepBuffers buffers, double beta1, double beta2, bool scales_loss) {
  float norm = *buffers.norm;
  StepClock clock = *buffers.clock;
  float loss_scale = clock.loss_scale(scales_loss);
  double learning_rate = buffers.learning_rates[clock.updates % buffers.learning_rate_count];
  buffers.history[clock.steps % buffers.history_rows] = {
      *buffers.loss_sum, static_cast<double>(norm) / static_cast<double>(loss_scale), learning_rate};
  *buffers.loss_sum = 0;
  clock.close_step(isfinite(norm), scales_loss);
  *buffers.scalars = {static_cast<float>(learning_rate), bias_correction(beta1, clock.updates),
                      bias_correction(beta2, clock.updates), 1.0F / loss_scale};
  *buffers.clock = clock;
}

}  // namespace

void scale_loss(const Queue& queue, const KernelCall& call) {
  scale_loss_kernel<<<1, 1, 0, queue.stream>>>(call.inputs[0].as<float>(), call.inputs[1].as<StepClock>(),
                                               call.outputs[0].as<float>());
  check_launch("scaling the loss");
}

void close_step(const Queue& queue, const KernelCall& call) {
  using In = CloseStepInput;
  using Out = CloseStepOutput;
  const auto& attributes = attributes_of<StepAttributes>(call.op);
  StepBuffers buffers{.learning_rates = call.inputs[In::learning_rates].as<double>(),
                      .learning_rate_count = call.inputs[In::learning_rates].rows(),
                      .norm = call.inputs[In::norm].as<float>(),
                      .clock = call.outputs[Out::clock].as<StepClock>(),
                      .scalars = call.outputs[Out::scalars].as<StepScalars>(),
                      .loss_sum = call.outputs[Out::loss_sum].as<double>(),
                      .history = call.outputs[Out::history].as<StepRecord>(),
                      .history_rows = call.outputs[Out::history].rows()};
  close_step_kernel<<<1, 1, 0, queue.stream>>>(buffers, attributes.beta1, attributes.beta2,
                                               attributes.scales_loss);
  check_launch("closing a step");
}

}  // namespace snug::cuda
