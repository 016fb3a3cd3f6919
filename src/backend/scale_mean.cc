// torch.sum's order for contiguous fp32 on processors with AVX2, and on those with AVX-512 as well: vectors
// of eight values, four vectors side by side, each in a cascade of four levels that pass their sum on when
// they are full. With several threads torch cuts tensors of more than 32,768 values, and the last place may
// differ.
#include "backend/scale_mean.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace snug {
namespace {

constexpr size_t kLanes = 8;
constexpr size_t kVectors = 4;  // that are added up side by side
constexpr size_t kRow = kLanes * kVectors;
constexpr int kLevels = 4;

using Row = std::array<float, kRow>;

void add(const float* values, Row& sum) {
  for (size_t i = 0; i < kRow; ++i) {
    sum[i] += values[i];
  }
}

// The sum of each of the values of a row over all rows.
Row sum_rows(const float* values, uint64_t rows) {
  int ceil_log2 = rows <= 1 ? 0 : static_cast<int>(std::bit_width(rows - 1));
  int power = std::max(4, ceil_log2 / kLevels);
  uint64_t step = uint64_t{1} << power;
  std::array<Row, kLevels> level{};
  uint64_t row = 0;
  while (row + step <= rows) {
    for (uint64_t end = row + step; row < end; ++row) {
      add(values + row * kRow, level[0]);
    }
    for (size_t i = 1; i < kLevels; ++i) {
      add(level[i - 1].data(), level[i]);
      level[i - 1].fill(0);
      if ((row & ((step - 1) << (i * static_cast<size_t>(power)))) != 0) {
        break;
      }
    }
  }
  for (; row < rows; ++row) {
    add(values + row * kRow, level[0]);
  }
  for (size_t i = 1; i < kLevels; ++i) {
    add(level[i].data(), level[0]);
  }
  return level[0];
}

}  // namespace

float mean_of_scales(std::span<const float> scales) {
  if (scales.size() < kLanes) {  // no vector: as many values side by side as there would be vectors
    std::array<float, kVectors> sums{};
    size_t whole = scales.size() / kVectors * kVectors;
    std::copy_n(scales.begin(), whole, sums.begin());
    for (size_t i = whole; i < scales.size(); ++i) {
      sums[0] += scales[i];
    }
    return (sums[0] + sums[1] + sums[2] + sums[3]) / static_cast<float>(scales.size());
  }
  size_t vectors = scales.size() / kLanes;
  size_t rows = vectors / kVectors;
  Row sums = sum_rows(scales.data(), rows);
  for (size_t vector = rows * kVectors; vector < vectors; ++vector) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += scales[vector * kLanes + lane];
    }
  }
  for (size_t vector = 1; vector < kVectors; ++vector) {
    for (size_t lane = 0; lane < kLanes; ++lane) {
      sums[lane] += sums[vector * kLanes + lane];
    }
  }
  float sum = 0;
  for (size_t i = vectors * kLanes; i < scales.size(); ++i) {
    sum += scales[i];
  }
  for (size_t lane = 0; lane < kLanes; ++lane) {
    sum += sums[lane];
  }
  return sum / static_cast<float>(scales.size());
}

}  // namespace snug
