// AdamW with moments in 8 bits, as bitsandbytes' CUDA kernel makes it, and the same to the bit on every
// backend here. A moment is map[code] * scale, scale = the largest magnitude of its block. The parameter
// moves by the fresh moments, before they become codes; weight decay comes after that.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

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
  float step_size = 0;      // learning rate * sqrt(1 - beta2^t) / (1 - beta1^t)
  float root_of_bias2 = 1;  // sqrt(1 - beta2^t)
  float epsilon = 0;        // before it is multiplied with that
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
          .root_of_bias2 = root,
          .epsilon = rates.epsilon};
}

template <typename Real>
constexpr AdamwElement updated(const Adamw8bitStep& step, Real decay, Real gradient,
                               const AdamwElement& before) {
  float g = gradient * step.gradient_scale;
  float first = std::fma(step.beta1, before.first, step.one_minus_beta1 * g);
  float second = std::fma(step.beta2, before.second, step.one_minus_beta2 * g * g);
  float ratio = first / std::fma(step.epsilon, step.root_of_bias2, std::sqrt(second));
  return {.parameter = std::fma(-step.step_size, ratio, before.parameter) * decay,
          .first = first,
          .second = second};
}

// ---- codes: the nearest value of the map; of two that are as near, the one with the even code ----

inline constexpr uint32_t kCodeOfZero = 127;  // with signs; those below it are negative

// The bounds between neighbours stand as a search tree: the children of node k are 2k and 2k + 1, its root is
// 1, and the code is what comes below the last row, less 256. A row's nodes lie side by side, so that the
// threads of a warp rarely ask one bank of memory for two of them.
inline constexpr uint32_t kBoundNodes = static_cast<uint32_t>(kDynamicMapEntries);  // node 0 is not used

// Between a code and the next one. What is above it goes to the upper value; where that is the even one, so
// does the middle itself, and the bound is the number before it.
constexpr float bound_above(const float* map, uint32_t code) {
  float middle = (map[code] + map[code + 1]) * 0.5F;
  auto bits = std::bit_cast<uint32_t>(middle);
  bool upper_is_even = code % 2 == 1;
  return upper_is_even ? std::bit_cast<float>(middle > 0 ? bits - 1 : bits + 1) : middle;
}

constexpr float node_bound(const float* map, uint32_t node) {
  auto level = static_cast<uint32_t>(std::bit_width(node)) - 1;
  uint32_t below = ((2 * (node - (1U << level)) + 1) << (7 - level)) - 1;  // the value below the bound
  return bound_above(map, below);
}

// `bounds` has node_bound of every node.
constexpr uint8_t dynamic_code(const float* bounds, float scaled) {
  uint32_t node = 1;
  while (node < kBoundNodes) {
    node = 2 * node + (scaled > bounds[node] ? 1U : 0U);
  }
  return static_cast<uint8_t>(node - kBoundNodes);
}

// Without a search: the values of decade d (0 to 6) are 10^(d - 6) times the middles of m 2^d equal parts of
// [0.1, 1], m = 1 with signs and 2 without. So a number's place among them can be calculated, to within one:
// near a bound, and where the logarithm takes a number for one of the next decade. The bounds of that code
// say which it is. Math has log2 and exp2, good to a few units in the last place.
template <bool kHasSigns, typename Math>
constexpr uint32_t nearly_code(float scaled) {
  constexpr float kToInteger = 12582912.0F;  // added to a small number, it rounds it into the lowest bits
  constexpr float kParts = kHasSigns ? 1.0F : 2.0F;
  constexpr float kLogOfSteps = kHasSigns ? 20.083571F : 21.083571F;  // log2(m 10^6 / 0.9)
  constexpr float kLogOfFifth = -2.3219281F;
  float size = ::fabsf(scaled);
  float decade = ::fminf(::fmaxf(std::fma(Math::log2(size), 0.30103F, 6.5F), 0.0F), 6.0F) + kToInteger;
  float two_to_decade = std::bit_cast<float>((std::bit_cast<uint32_t>(decade) << 23) + 0x3f800000U);
  float steps = Math::exp2(std::fma(decade - kToInteger, kLogOfFifth, kLogOfSteps));
  // A little less than the half that makes rounding cut off: -1 is not among the values, and stays at the
  // first.
  float before = std::fma(two_to_decade, kParts * (8.0F / 9.0F), 0.49F - kParts);
  float place = ::fmaxf(std::fma(size, steps, before), 0.0F);
  constexpr float kFromZero = kToInteger + static_cast<float>(kCodeOfZero);
  float code = kHasSigns ? ::copysignf(place, scaled) + kFromZero : place + kToInteger;
  return std::bit_cast<uint32_t>(code) & 0xffU;
}

// Of a code; beyond the first and the last one there is none, which nothing is above or below.
struct CodeBounds {
  float below;
  float above;
};

constexpr CodeBounds bounds_of(const float* map, uint32_t code) {
  constexpr float kNone = std::numeric_limits<float>::quiet_NaN();
  return {.below = code > 0 ? bound_above(map, code - 1) : kNone,
          .above = code + 1 < kBoundNodes ? bound_above(map, code) : kNone};
}

// `bounds` are those of `nearly`.
constexpr uint8_t corrected_code(uint32_t nearly, float scaled, const CodeBounds& bounds) {
  return static_cast<uint8_t>(nearly + (scaled > bounds.above ? 1U : 0U) -
                              (scaled <= bounds.below ? 1U : 0U));
}

// A first moment keeps its sign: a negative one is never zero.
template <typename Real>
constexpr uint8_t with_sign_of(Real value, uint8_t code) {
  bool is_flipped = (code < kCodeOfZero) != std::signbit(value);
  return is_flipped ? static_cast<uint8_t>(value > 0 ? code + 1 : code - 1) : code;
}

}  // namespace snug
