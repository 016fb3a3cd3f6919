// What rms_norm and head_norm share: the norm of one row, its gradient, and sums over tokens.
#pragma once

#include <algorithm>
#include <cmath>

#include "backend/cpu/dispatch.h"
#include "base/threads.h"

namespace snug::cpu {

template <typename T>
float reciprocal_rms(const T* x, int64_t width, float epsilon) {
  float sum = 0;
#pragma omp simd reduction(+ : sum)
  for (int64_t i = 0; i < width; ++i) {
    float value = to_float(x[i]);
    sum += value * value;
  }
  return 1.0F / std::sqrt(sum / static_cast<float>(width) + epsilon);
}

template <bool kAccumulate, typename T, typename W>
void norm_row(const T* x, const W* weight, T* y, int64_t width, float epsilon) {
  float scale = reciprocal_rms(x, width, epsilon);
#pragma omp simd
  for (int64_t i = 0; i < width; ++i) {
    float normalised = to_float(round_to<T>(to_float(x[i]) * scale));
    store<kAccumulate>(y[i], normalised * to_float(weight[i]));
  }
}

// The gradient of w is a sum over tokens. Tokens are cut into blocks by their number alone, each block sums
// its rows in order, and the blocks are summed in order: the result does not depend on the thread count.
inline constexpr int64_t kMostBlocks = 64;
inline constexpr int64_t kBlockTokens = 32;

inline int64_t block_count(int64_t tokens) {
  return std::clamp<int64_t>((tokens + kBlockTokens - 1) / kBlockTokens, 1, kMostBlocks);
}

template <typename T, typename W>
struct BackwardRow {
  const T* x;
  const W* weight;
  const T* dy;
  T* dx;            // may be null, may be x or dy
  float* dw_block;  // may be null; += always
  int64_t width;
  float epsilon;

  // With n = x * scale and g = dy * w:  dx = scale * (g - n * mean(g * n)),  dw = sum of dy * n.
  template <bool kAccumulate>
  void run() const {
    float scale = reciprocal_rms(x, width, epsilon);
    if (dw_block != nullptr) {
#pragma omp simd
      for (int64_t i = 0; i < width; ++i) {
        dw_block[i] += to_float(dy[i]) * to_float(x[i]) * scale;
      }
    }
    if (dx == nullptr) {
      return;
    }
    float dot = 0;
#pragma omp simd reduction(+ : dot)
    for (int64_t i = 0; i < width; ++i) {
      dot += to_float(dy[i]) * to_float(weight[i]) * to_float(x[i]);
    }
    float pull = dot * scale * scale / static_cast<float>(width);
#pragma omp simd
    for (int64_t i = 0; i < width; ++i) {
      store<kAccumulate>(dx[i], scale * (to_float(dy[i]) * to_float(weight[i]) - to_float(x[i]) * pull));
    }
  }
};

// dw[D] (= or +=) the sum over the blocks of partials[block][D], block by block.
inline void sum_blocks(float* partials, int64_t blocks, const Tensor& dw, bool accumulate) {
  int64_t width = dw.elements();
  float* destination = dw.as<float>();
  parallel_for(width, 1024, [&](int64_t first, int64_t last) {
    for (int64_t block = 1; block < blocks; ++block) {
      const float* source = partials + block * width;
#pragma omp simd
      for (int64_t i = first; i < last; ++i) {
        partials[i] += source[i];
      }
    }
    for (int64_t i = first; i < last; ++i) {
      destination[i] = accumulate ? destination[i] + partials[i] : partials[i];
    }
  });
}

}  // namespace snug::cpu
