// One element's update by AdamW, and rounding to bf16 by chance, the same to the bit on every backend: every
// sum is a fused one by name, so that no compiler chooses which product to fuse. The functions are constexpr
// so that device code can call them, and templates because std::fma and std::sqrt are not constexpr.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "base/rng.h"
#include "program/op.h"
#include "program/step_clock.h"

namespace snug {

// What all elements of a step share.
struct AdamwStep {
  float gradient_scale = 1;  // takes the loss scale out, and clips
  float beta1 = 0;
  float beta2 = 0;
  float one_minus_beta1 = 1;
  float one_minus_beta2 = 1;
  float step_size = 0;              // learning rate / (1 - beta1^t)
  float inverse_root_of_bias2 = 1;  // 1 / sqrt(1 - beta2^t)
  float epsilon = 0;
};

// The part of an op's attributes that kernels take along; 1 - beta is made in double, as in fp32 the
// difference would lose most of its digits.
struct AdamwRates {
  float beta1 = 0;
  float beta2 = 0;
  float one_minus_beta1 = 1;
  float one_minus_beta2 = 1;
  float epsilon = 0;
  float max_norm = 0;
};

inline AdamwRates rates_of(const AdamwAttributes& attributes) {
  return {.beta1 = static_cast<float>(attributes.beta1),
          .beta2 = static_cast<float>(attributes.beta2),
          .one_minus_beta1 = static_cast<float>(1.0 - attributes.beta1),
          .one_minus_beta2 = static_cast<float>(1.0 - attributes.beta2),
          .epsilon = attributes.epsilon,
          .max_norm = attributes.max_norm};
}

// Clips as torch.nn.utils.clip_grad_norm_ does; `norm` is that of the scaled gradients.
template <typename Real>
constexpr AdamwStep make_step(const AdamwRates& rates, const StepScalars& scalars, Real norm) {
  float unscale = scalars.inverse_loss_scale;
  float clip = 1.0F;
  if (rates.max_norm > 0) {
    float coefficient = rates.max_norm / std::fma(norm, unscale, 1e-6F);
    clip = coefficient < 1.0F ? coefficient : 1.0F;
  }
  return {.gradient_scale = clip * unscale,
          .beta1 = rates.beta1,
          .beta2 = rates.beta2,
          .one_minus_beta1 = rates.one_minus_beta1,
          .one_minus_beta2 = rates.one_minus_beta2,
          .step_size = scalars.learning_rate / scalars.bias_correction1,
          .inverse_root_of_bias2 = 1.0F / std::sqrt(scalars.bias_correction2),
          .epsilon = rates.epsilon};
}

// 1 - learning rate * weight decay, rounded once.
template <typename Real>
constexpr Real decay_factor(Real learning_rate, Real weight_decay) {
  return static_cast<Real>(
      std::fma(-static_cast<double>(learning_rate), static_cast<double>(weight_decay), 1.0));
}

struct AdamwElement {
  float parameter = 0;
  float first = 0;
  float second = 0;
};

// torch.optim.AdamW, decoupled decay first.
template <typename Real>
constexpr AdamwElement updated(const AdamwStep& step, Real decay, Real gradient, const AdamwElement& before) {
  float g = gradient * step.gradient_scale;
  float first = std::fma(step.beta1, before.first, step.one_minus_beta1 * g);
  float second = std::fma(step.beta2, before.second, step.one_minus_beta2 * g * g);
  float denominator = std::fma(std::sqrt(second), step.inverse_root_of_bias2, step.epsilon);
  float change = step.step_size * first / denominator;
  return {.parameter = std::fma(before.parameter, decay, -change), .first = first, .second = second};
}

// The bits of a bf16 next to `value`: the one further from zero with the probability of how near it is, by 16
// random bits. The mean over many roundings is the value itself, so that changes too small for bf16 arrive.
constexpr uint16_t stochastic_bf16_bits(float value, uint32_t random_bits) {
  auto bits = std::bit_cast<uint32_t>(value);
  uint32_t rounded = bits + (random_bits & 0xffffU);
  bool is_special = (bits & 0x7f800000U) == 0x7f800000U;    // infinities and NaN stay what they are
  bool overflows = (rounded & 0x7f800000U) == 0x7f800000U;  // the largest number does not become infinite
  uint32_t quiet = (bits & 0x7fffffffU) > 0x7f800000U ? 0x0040U : 0U;
  uint32_t kept = is_special || overflows ? bits : rounded;
  return static_cast<uint16_t>(kept >> 16 | quiet);
}

// Random bits of element i of tensor n in a step: words 2 * (i % 2) and the next one of
// philox(seed, stream, i / 2). The first moment takes the low half of the first word, the second moment its
// high half, the parameter the low half of the second word.
constexpr uint64_t rounding_stream(int64_t step, uint64_t tensor) {
  // Dropout's streams, one per place in the model, stay below.
  return mix(static_cast<uint64_t>(step)) ^ ((uint64_t{1} << 32) + tensor);
}

// Where parameters alone are rounded by chance, element i of a tensor takes 16 of the 128 bits of
// philox(seed, stream, counter): half `half` of eight. Those that share a counter are what a thread of a card
// updates: four neighbours in each half of a block.
struct RoundingPlace {
  uint64_t counter = 0;
  uint32_t half = 0;
};
inline constexpr int64_t kElementsACounter = 8;
inline constexpr int64_t kRoundingBlock = 256;

constexpr RoundingPlace rounding_place(int64_t element) {
  int64_t within = element % kRoundingBlock;
  int64_t lane = within % (kRoundingBlock / 2) / 4;
  return {.counter =
              static_cast<uint64_t>(element / kRoundingBlock * (kRoundingBlock / kElementsACounter) + lane),
          .half = static_cast<uint32_t>(within / (kRoundingBlock / 2) * 4 + within % 4)};
}

}  // namespace snug
