// Adapters of several layers side by side, as tests of LoRA's products on the card have them.
#pragma once

#include <numeric>
#include <vector>

#include "cuda/on_both.h"

namespace snug {

struct LoraCase {
  // Columns of y before, between and behind the parts, which nobody owns.
  static constexpr int64_t kBetween = 8;

  int64_t rows;
  int64_t rank;
  std::vector<int64_t> parts;  // columns of y that they own
  DType dtype;

  int64_t stacked() const { return std::ssize(parts) * rank; }  // columns of the down product
  int64_t b_rows() const { return std::accumulate(parts.begin(), parts.end(), int64_t{0}); }
  int64_t columns() const { return b_rows() + (std::ssize(parts) + 1) * kBetween; }

  LoraAttributes attributes() const {
    LoraAttributes made{1.5F, rank, {}};
    int64_t column = kBetween;
    int64_t b_row = 0;
    for (int64_t part : parts) {
      made.parts.push_back({column, b_row, part});
      b_row += part;
      column += part + kBetween;
    }
    return made;
  }
};

class LoraOnCard : public testing::TestWithParam<LoraCase> {
 protected:
  void SetUp() override { SKIP_WITHOUT_CARD(); }
};

}  // namespace snug
