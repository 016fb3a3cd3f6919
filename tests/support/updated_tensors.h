// A parameter whose update is tested: tensors of the file that share its buffer.
#pragma once

#include <algorithm>
#include <cstdint>
#include <numeric>
#include <vector>

namespace snug {

// Tensors of so many rows; without columns they are vectors.
struct UpdatedTensors {
  int64_t columns = 1;
  std::vector<int64_t> rows;
  float weight_decay = 0;

  int64_t all_rows() const { return std::accumulate(rows.begin(), rows.end(), int64_t{0}); }
  int64_t elements() const { return all_rows() * std::max(columns, int64_t{1}); }
};

}  // namespace snug
