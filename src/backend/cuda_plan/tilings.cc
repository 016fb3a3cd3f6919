#include "backend/cuda_plan/tilings.h"

#include <algorithm>

namespace snug::cuda {
namespace {

// fp32 sums that the 128 threads of a group hold in registers, 176 each.
constexpr int64_t kOneGroupHolds = int64_t{128} * 176;
constexpr int64_t kShortestSide = 64;  // below it, operands come slower than they are multiplied
// Sums of LoRA's ranks are all writing: nothing hides it. In sums of more than 5,120 products writing hardly
// counts.
constexpr int64_t kThinSum = 512;
constexpr int64_t kShortSum = 5120;
// Results of fewer numbers are made in so little time that the first guess is as good or better.
constexpr int64_t kManyResults = int64_t{1} << 25;
// Use of the card that counts as equal: then the library's order decides.
constexpr double kEqualUse = 0.02;

int64_t up_to_multiple(int64_t count, int64_t unit) {
  return (count + unit - 1) / unit * unit;
}

bool is_shared(const Tiling& tiling) {
  return tiling.m * tiling.n > kOneGroupHolds;
}

bool is_own(const Tiling& tiling) {
  return std::min(tiling.m, tiling.n) >= kShortestSide && !is_shared(tiling);
}

// The share of the multiplications that a card makes in the time this takes that are in the result: tiles
// reach beyond its edges, and the last wave of tiles leaves multiprocessors without one.
double use_of(const Tiling& tiling, const TiledProduct& product, int64_t multiprocessors) {
  int64_t tiles = up_to_multiple((product.m + tiling.m - 1) / tiling.m, tiling.cluster_m) *
                  up_to_multiple((product.n + tiling.n - 1) / tiling.n, tiling.cluster_n) * tiling.parts;
  int64_t made = up_to_multiple(tiles, multiprocessors) * tiling.m * tiling.n;
  return static_cast<double>(product.m * product.n * tiling.parts) / static_cast<double>(made);
}

}  // namespace

size_t tiling_for_hopper(std::span<const Tiling> guesses, const TiledProduct& product,
                         int64_t multiprocessors) {
  if (guesses.empty() || !is_shared(guesses[0])) {
    return 0;
  }
  bool is_short =
      product.inner >= kThinSum && product.inner <= kShortSum && product.m * product.n >= kManyResults;
  if (!is_short && guesses[0].parts == 1 && !product.adds_wide) {
    return 0;
  }
  double best = 0;
  for (const Tiling& guess : guesses) {
    if (is_own(guess)) {
      best = std::max(best, use_of(guess, product, multiprocessors));
    }
  }
  for (size_t i = 0; i < guesses.size(); ++i) {
    if (is_own(guesses[i]) && use_of(guesses[i], product, multiprocessors) >= best * (1 - kEqualUse)) {
      return i;
    }
  }
  return 0;
}

}  // namespace snug::cuda
