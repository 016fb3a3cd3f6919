// The products themselves, compiled to be fast: they are most of what kernels do.
#include "cuda_on_host/products.h"

#include <cstring>

#include "base/dtype.h"

namespace snug::cuda_on_host {
namespace {

constexpr int kWarpRows = 16;
constexpr int kMostColumns = 256;
constexpr int kChunk = 8;  // numbers: what stays together when shared memory is swizzled

float float_of(uint16_t bits, bool is_half) {
  return is_half ? to_float(std::bit_cast<f16_t>(bits)) : to_float(std::bit_cast<bf16_t>(bits));
}

// A pair of neighbours.
void unpack(uint32_t pair, bool is_half, float* to) {
  to[0] = float_of(static_cast<uint16_t>(pair), is_half);
  to[1] = float_of(static_cast<uint16_t>(pair >> 16), is_half);
}

// What a descriptor tells.
class GroupOperand {
 public:
  GroupOperand(uint64_t descriptor, bool by_columns, bool is_half)
      : address_(field(descriptor, 0)),
        panel_bytes_(field(descriptor, 16)),
        group_bytes_(field(descriptor, 32)),
        by_columns_(by_columns),
        is_half_(is_half) {
    if (descriptor >> 62 != 1) {
      fail("products read shared memory by swizzled rows of 128 bytes");
    }
  }

  // to[16, rows], from `row` on: number k of a row lies at to[k * rows + the row].
  void read(int row, int rows, float* to) const {
    int line = by_columns_ ? 0 : row;
    int lines = by_columns_ ? kDepth : rows;
    int place = by_columns_ ? row : 0;
    int length = by_columns_ ? rows : kDepth;
    int step = by_columns_ ? 1 : rows;  // from one number of a line to the next
    int line_step = by_columns_ ? rows : 1;
    for (int i = 0; i < lines; ++i) {
      for (int first = 0; first < length; first += kChunk) {
        std::array<uint16_t, kChunk> chunk;
        std::memcpy(chunk.data(), chunk_at(line + i, place + first), sizeof chunk);
        for (int j = 0; j < kChunk; ++j) {
          to[i * line_step + (first + j) * step] = float_of(chunk[static_cast<size_t>(j)], is_half_);
        }
      }
    }
  }

 private:
  static uint32_t field(uint64_t descriptor, int bit) {
    return static_cast<uint32_t>(descriptor >> bit & 0x3fffU) << 4;
  }
  const std::byte* chunk_at(int line, int first) const {
    constexpr int kPanel = 64;  // numbers of a row of 128 bytes
    uint32_t address = address_ + static_cast<uint32_t>(line / 8) * group_bytes_ +
                       static_cast<uint32_t>(line % 8 * 128 + first % kPanel * 2) +
                       static_cast<uint32_t>(first / kPanel) * panel_bytes_;
    address ^= (address >> 7 & 7U) << 4;
    return shared_at(address_in_block(address, rank_in_cluster()), kChunk * sizeof(uint16_t), 16);
  }

  uint32_t address_;
  uint32_t panel_bytes_;
  uint32_t group_bytes_;
  bool by_columns_;
  bool is_half_;
};

// The warp's rows, a[16, 16].
void read_left(const GroupProduct& product, float* a) {
  if (product.left != Left::registers) {
    GroupOperand(product.a, product.left == Left::columns, product.is_half)
        .read(product.warp * kWarpRows, kWarpRows, a);
    return;
  }
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    for (int i = 0; i < 4; ++i) {
      std::array<float, 2> pair;
      unpack(product.left_words[static_cast<size_t>(lane)][static_cast<size_t>(i)], product.is_half,
             pair.data());
      int at = left_column(lane, i) * kWarpRows + left_row(lane, i);
      a[at] = pair[0];
      a[at + kWarpRows] = pair[1];
    }
  }
}

}  // namespace

void multiply(const WarpProduct& product) {
  float a[16][kDepth];
  float b[kDepth][8];
  for (int lane = 0; lane < kWarpThreads; ++lane) {
    auto at = static_cast<size_t>(lane);
    for (int i = 0; i < 4; ++i) {
      unpack(product.a[at][i], product.is_half, &a[left_row(lane, i)][left_column(lane, i)]);
    }
    for (int i = 0; i < 2; ++i) {
      std::array<float, 2> pair;
      unpack(product.b[at][static_cast<size_t>(i)], product.is_half, pair.data());
      int k = 2 * (lane % 4) + 8 * i;
      b[k][lane / 4] = pair[0];
      b[k + 1][lane / 4] = pair[1];
    }
  }
  for (int row = 0; row < 16; ++row) {
    float sums[8] = {};
    for (int k = 0; k < kDepth; ++k) {
      for (int column = 0; column < 8; ++column) {
        sums[column] += a[row][k] * b[k][column];
      }
    }
    for (int column = 0; column < 8; ++column) {
      int lane = row % 8 * 4 + column / 2;
      product.d[static_cast<size_t>(lane)][row / 8 * 2 + column % 2] += sums[column];
    }
  }
}

void multiply(const GroupProduct& product) {
  static float a[kDepth * kWarpRows];
  static float b[kDepth * kMostColumns];
  read_left(product, a);
  GroupOperand(product.b, product.right_by_columns, product.is_half).read(0, product.columns, b);
  for (int row = 0; row < kWarpRows; ++row) {
    float sums[kMostColumns] = {};
    for (int k = 0; k < kDepth; ++k) {
      float factor = a[k * kWarpRows + row];
      const float* line = b + k * product.columns;
      for (int column = 0; column < product.columns; ++column) {
        sums[column] += factor * line[column];
      }
    }
    float* const* lanes = product.d.data() + row % 8 * 4;
    for (int column = 0; column < product.columns; ++column) {
      float& sum = lanes[column % 8 / 2][column / 8 * 4 + row / 8 * 2 + column % 2];
      sum = (product.add ? sum : 0.0F) + sums[column];
    }
  }
}

}  // namespace snug::cuda_on_host
