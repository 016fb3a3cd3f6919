// Adafactor as Hugging Face's Trainer runs it: no relative steps, no scaling by parameters, no first moment.
// The mean squares of a matrix G are kept by its rows and columns alone:
//
//   R[i] = b R[i] + (1 - b) (mean of G[i,.]^2 + eps)    C[j] = b C[j] + (1 - b) (mean of G[.,j]^2 + eps)
//   U[i,j] = G[i,j] / sqrt(R[i] / mean(R)) / sqrt(C[j])      b = 1 - t^-0.8, t = updates
//   P = P (1 - rate * decay) - rate / max(1, rms(U)) * U
//
// A vector keeps V[i] = b V[i] + (1 - b) (G[i]^2 + eps), and U[i] = G[i] / sqrt(V[i]). Sums are made in fp64.
#pragma once

#include <cmath>
#include <cstdint>

#include "backend/adamw_formula.h"

namespace snug {

// What all elements of a step share.
struct AdafactorStep {
  float gradient_scale = 1;  // takes the loss scale out, and clips
  float beta = 0;
  float one_minus_beta = 1;
  float learning_rate = 0;
};

// updates^-0.8. By Newton's method for the fifth root of updates^4, from above: products, quotients and named
// sums alone, so that host and card agree.
template <typename Real>
constexpr Real square_weight(Real updates) {
  Real power = updates * updates * updates * updates;
  Real root = updates;
  for (int i = 0; i < 100; ++i) {
    Real next = std::fma(Real{4}, root, power / (root * root * root * root)) / Real{5};
    if (!(next < root)) {
      break;
    }
    root = next;
  }
  return Real{1} / root;
}

template <typename Real>
constexpr AdafactorStep make_adafactor_step(float max_norm, const StepScalars& scalars, Real norm,
                                            int64_t updates) {
  double weight = square_weight(static_cast<double>(updates));
  return {.gradient_scale = make_step(AdamwRates{.max_norm = max_norm}, scalars, norm).gradient_scale,
          .beta = static_cast<float>(1.0 - weight),
          .one_minus_beta = static_cast<float>(weight),
          .learning_rate = scalars.learning_rate};
}

// The new mean of squares, from the old one and a mean of this step's.
template <typename Real>
constexpr float moved_mean(const AdafactorStep& step, Real before, double mean_of_squares) {
  constexpr double kEpsilon = 1e-30;
  return std::fma(step.beta, before, step.one_minus_beta * static_cast<float>(mean_of_squares + kEpsilon));
}

template <typename Real>
constexpr Real row_factor(Real row, Real mean_of_rows) {
  return 1.0F / std::sqrt(row / mean_of_rows);
}
// Of a column, or of one element of a vector.
template <typename Real>
constexpr Real inverse_root(Real mean_of_squares) {
  return 1.0F / std::sqrt(mean_of_squares);
}

// What U is multiplied with, from the sum of its squares.
template <typename Real>
constexpr float step_size(const AdafactorStep& step, Real sum_of_squares, int64_t elements) {
  auto rms = static_cast<float>(std::sqrt(sum_of_squares / static_cast<double>(elements)));
  return step.learning_rate / (rms > 1.0F ? rms : 1.0F);
}

template <typename Real>
constexpr float moved_parameter(Real parameter, float decay, float size, float change) {
  return std::fma(parameter, decay, -(size * change));
}

}  // namespace snug
