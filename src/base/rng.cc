// Distributions over the counter-based generator.
#include "base/rng.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "base/check.h"
#include "base/philox_lanes.h"

namespace snug {
namespace {

// The bell curve at x >= 0: its height there, and its area from 0 to x.
struct Bell {
  double height = 0;
  double area = 0;
};

constexpr double kRootOfTwoPi = 2.50662827463100050242;

// height = 1 / (sqrt(2 pi) (1 + x^2/2 + x^4/(2 4) + ...)), area = height (x + x^3/3 + x^5/(3 5) + ...): no
// term is negative, so nothing cancels, and nothing is left to a library whose last bits differ.
constexpr Bell bell_at(double x) {
  double even_term = 1;
  double even_sum = 1;
  double odd_term = x;
  double odd_sum = x;
  for (int n = 2; even_term > 0x1p-60 * even_sum; n += 2) {
    even_term *= x * x / n;
    even_sum += even_term;
    odd_term *= x * x / (n + 1);
    odd_sum += odd_term;
  }
  double height = 1 / (kRootOfTwoPi * even_sum);
  return {height, height * odd_sum};
}

// c0 + c1 t + c2 t^2 + c3 t^3 for t in [0, 1)
struct Cubic {
  float c0 = 0;
  float c1 = 0;
  float c2 = 0;
  float c3 = 0;
};

// x as a function of the probability p that a normal number lies above it, for p from 2^-33 to 1/2. Each
// octave of p has as many pieces, because x goes with the square root of log p; which is p's comes from the
// exponent and the first bits of p as a float. p = 1/2 begins a last piece, of which nothing but its
// beginning is used.
constexpr int kPieceBits = 4;
constexpr int kPiecesInOctave = 1 << kPieceBits;
constexpr int kOctaves = 32;
using Quantile = std::array<Cubic, kOctaves * kPiecesInOctave + 1>;

// From x = 0 outwards. The cubics have the curve's value and slope at both ends (Hermite); between them they
// are off by less than the rounding of fp32. Made by the compiler: every build has the same bits.
constexpr Quantile make_quantile() {
  constexpr int kNewtonSteps = 4;
  Quantile pieces{};
  double octave = 0.5;
  double p = 0.5;
  double x = 0;
  double slope = -kRootOfTwoPi;  // dx/dp = -1 / height
  for (int i = kOctaves * kPiecesInOctave - 1; i >= 0; --i) {
    if (i % kPiecesInOctave == kPiecesInOctave - 1) {
      octave /= 2;
    }
    double end_x = x;
    double width = p - octave * (1 + static_cast<double>(i % kPiecesInOctave) / kPiecesInOctave);
    double end_rise = slope * width;
    p -= width;
    for (int step = 0; step < kNewtonSteps; ++step) {
      Bell bell = bell_at(x);
      x += (0.5 - bell.area - p) / bell.height;
    }
    slope = -1 / bell_at(x).height;
    double rise = slope * width;
    double drop = end_x - x;
    pieces[static_cast<size_t>(i)] = {static_cast<float>(x), static_cast<float>(rise),
                                      static_cast<float>(3 * drop - 2 * rise - end_rise),
                                      static_cast<float>(rise + end_rise - 2 * drop)};
  }
  return pieces;
}

constexpr Quantile kQuantile = make_quantile();

// The highest bit is the sign, the others are p. Every operation is rounded as IEEE 754 has it, and products
// and sums are joined in writing, so that no compiler chooses whether to.
inline float quantile_of(uint32_t word) {
  constexpr uint32_t kSign = 0x80000000U;
  constexpr int kRestBits = 23 - kPieceBits;  // of a float's mantissa
  constexpr uint32_t kRest = (1U << kRestBits) - 1;
  constexpr uint32_t kOne = std::bit_cast<uint32_t>(1.0F);
  constexpr uint32_t kFirstPiece = std::bit_cast<uint32_t>(0.5F) >> kRestBits;
  // 2^32 p, in the middle of what rounds to it; as a signed integer, because AVX2 converts those.
  uint32_t place = std::bit_cast<uint32_t>(static_cast<float>(static_cast<int32_t>(word & ~kSign)) + 0.5F);
  const Cubic& piece = kQuantile[(place >> kRestBits) - kFirstPiece];
  float t = std::bit_cast<float>(kOne | (place & kRest) << kPieceBits) - 1.0F;
  float x = std::fma(std::fma(std::fma(piece.c3, t, piece.c2), t, piece.c1), t, piece.c0);
  return std::bit_cast<float>(std::bit_cast<uint32_t>(x) ^ (word & kSign));
}

}  // namespace

float normal_float(uint32_t word) {
  return quantile_of(word);
}

template <typename Number>
void Rng::fill(std::span<float> values, const Number& number_of) {
  size_t done = 0;
  for (; done < values.size() && used_ < 4; ++done) {
    values[done] = number_of(next_u32());
  }
  PhiloxLanes lanes;
  uint32_t words[4 * PhiloxLanes::kLanes];
  while (values.size() - done >= 4) {
    size_t counters = std::min((values.size() - done) / 4, PhiloxLanes::kLanes);
    lanes.run(seed_, stream_, counter_, counters);
#pragma omp simd
    for (size_t i = 0; i < counters; ++i) {
      for (size_t word = 0; word < 4; ++word) {
        words[4 * i + word] = lanes.words[word][i];
      }
    }
#pragma omp simd
    for (size_t i = 0; i < 4 * counters; ++i) {
      values[done + i] = number_of(words[i]);
    }
    counter_ += counters;
    done += 4 * counters;
  }
  for (; done < values.size(); ++done) {
    values[done] = number_of(next_u32());
  }
}

void Rng::fill_uniform(std::span<float> values) {
  fill(values, [](uint32_t word) { return unit_float(word); });
}

void Rng::fill_normal(std::span<float> values) {
  fill(values, [](uint32_t word) { return quantile_of(word); });
}

uint64_t Rng::below(uint64_t bound) {
  SNUG_CHECK(bound > 0, "an empty range has no random element");
  uint64_t limit = bound * (UINT64_MAX / bound);  // the largest multiple: above it the draw is biased
  uint64_t word = next_u64();
  while (word >= limit) {
    word = next_u64();
  }
  return word % bound;
}

}  // namespace snug
