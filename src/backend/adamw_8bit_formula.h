// AdamW with moments in 8 bits, as bitsandbytes' CUDA kernel makes it, and the same to the bit on every
// backend here. A moment is map[code] * scale, scale = the largest magnitude of its block. The parameter
// moves by the fresh moments, before they become codes; weight decay comes after that.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "backend/adamw_formula.h"
#include "base/code_formula.h"

namespace snug {

// Elements that share a scale.
inline constexpr int64_t kStateBlock = kFirstMoment8bit.block;
static_assert(kStateBlock == kSecondMoment8bit.block && kStateBlock == kRoundingBlock);

// What all elements of a step share.
struct Adamw8bitStep {
  float gradient_scale = 1;  // takes the loss scale out, and clips
  float beta1 = 0;
  float beta2 = 0;
  float one_minus_beta1 = 1;
  float one_minus_beta2 = 1;
  float step_size = 0;  // learning rate * sqrt(1 - beta2^t) / (1 - beta1^t)
  float epsilon = 0;    // epsilon * sqrt(1 - beta2^t)
};

// 1 - beta is made in fp32, as there: the second moments are smaller by 1e-5 of themselves for it.
template <typename Real>
constexpr Adamw8bitStep make_8bit_step(const AdamwRates& rates, const StepScalars& scalars, Real norm) {
  float root = std::sqrt(scalars.bias_correction2);
  return {.gradient_scale = make_step(rates, scalars, norm).gradient_scale,
          .beta1 = rates.beta1,
          .beta2 = rates.beta2,
          .one_minus_beta1 = 1.0F - rates.beta1,
          .one_minus_beta2 = 1.0F - rates.beta2,
          .step_size = scalars.learning_rate * root / scalars.bias_correction1,
          .epsilon = rates.epsilon * root};
}

template <typename Real>
constexpr AdamwElement updated(const Adamw8bitStep& step, Real decay, Real gradient,
                               const AdamwElement& before) {
  float g = gradient * step.gradient_scale;
  float first = std::fma(step.beta1, before.first, step.one_minus_beta1 * g);
  float second = std::fma(step.beta2, before.second, step.one_minus_beta2 * g * g);
  float ratio = first / (std::sqrt(second) + step.epsilon);
  return {.parameter = std::fma(-step.step_size, ratio, before.parameter) * decay,
          .first = first,
          .second = second};
}

// ---- codes: the nearest value of the map; of two that are as near, the one with the even code ----

// The bounds between neighbours stand as a search tree: the children of node k are 2k and 2k + 1, its root is
// 1, and the code is what comes below the last row, less 256. A row's nodes lie side by side, so that the
// threads of a warp rarely ask one bank of memory for two of them.
inline constexpr uint32_t kBoundNodes = static_cast<uint32_t>(kDynamicMapEntries);  // node 0 is not used

constexpr float node_bound(const float* map, uint32_t node) {
  auto level = static_cast<uint32_t>(std::bit_width(node)) - 1;
  uint32_t below = ((2 * (node - (1U << level)) + 1) << (7 - level)) - 1;  // the value below the bound
  float middle = (map[below] + map[below + 1]) * 0.5F;
  // What is above a bound goes to the upper value. Where that is the even one, so does the middle itself: the
  // bound is the number before it.
  auto bits = std::bit_cast<uint32_t>(middle);
  bool upper_is_even = below % 2 == 1;
  return upper_is_even ? std::bit_cast<float>(middle > 0 ? bits - 1 : bits + 1) : middle;
}

// `bounds` has node_bound of every node.
constexpr uint8_t dynamic_code(const float* bounds, float scaled) {
  uint32_t node = 1;
  while (node < kBoundNodes) {
    node = 2 * node + (scaled > bounds[node] ? 1U : 0U);
  }
  return static_cast<uint8_t>(node - kBoundNodes);
}

// A first moment keeps its sign: a negative one is never zero.
template <typename Real>
constexpr uint8_t with_sign_of(Real value, uint8_t code, const float* map) {
  bool is_flipped = std::signbit(map[code]) != std::signbit(value);
  return is_flipped ? static_cast<uint8_t>(value > 0 ? code + 1 : code - 1) : code;
}

}  // namespace snug
