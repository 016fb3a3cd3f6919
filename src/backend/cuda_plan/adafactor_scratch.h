// How Adafactor's kernels share out tensors, and the scratch memory that they take for it.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <vector>

#include "backend/cuda_plan/scratch.h"
#include "program/op.h"

namespace snug::cuda {

inline constexpr int kAdafactorThreads = 256;
inline constexpr int kAdafactorWarps = kAdafactorThreads / 32;
inline constexpr int kLaneColumns = 8;  // of a row, that a thread takes at once
inline constexpr int kWarpRows = 8;     // that a thread takes one after the other

// A block takes a tile: so many columns, and a chunk of the rows. A row of a tile goes to as many
// neighbouring lanes as it has columns for, so that a warp has several rows where they are short; 64 or more
// rows, those that a block's warps go through once, are a strip.
struct MatrixTiles {
  int lanes = 32;
  int column_tiles = 1;
  int chunks = 1;
  int64_t chunk_rows = 0;  // whole strips

  MatrixTiles() = default;
  MatrixTiles(int64_t rows, int64_t length) {
    constexpr int64_t kMostChunks = 64;
    int64_t pieces = (length + kLaneColumns - 1) / kLaneColumns;
    lanes = static_cast<int>(std::bit_ceil(static_cast<uint64_t>(std::min<int64_t>(pieces, 32))));
    column_tiles = static_cast<int>((length + tile_columns() - 1) / tile_columns());
    int64_t strips = (rows + strip_rows() - 1) / strip_rows();
    chunk_rows = (strips + kMostChunks - 1) / kMostChunks * strip_rows();
    chunks = static_cast<int>((rows + chunk_rows - 1) / chunk_rows);
  }

  constexpr int tile_columns() const { return kLaneColumns * lanes; }
  constexpr int rows_at_once() const { return 32 / lanes; }
  constexpr int strip_rows() const { return kAdafactorWarps * kWarpRows * rows_at_once(); }
  constexpr int blocks() const { return column_tiles * chunks; }
};
inline constexpr int kMostStripRows = kAdafactorWarps * kWarpRows * 32;

// Blocks of the kernel that makes means: first those of rows, then those of columns, an element a thread.
constexpr int means_blocks(int64_t count) {
  return static_cast<int>((count + kAdafactorThreads - 1) / kAdafactorThreads);
}

// What a step's numbers are for all tensors.
struct AdafactorNumbers {
  float gradient_scale;
  float beta;
  float one_minus_beta;
  float learning_rate;
};

// What the kernels leave each other of one matrix.
struct MatrixScratch {
  double* row_sums = nullptr;     // [column tiles, rows]
  double* column_sums = nullptr;  // [chunks, columns]
  double* mean_sums = nullptr;    // of the rows' means, one a block
  double* update_sums = nullptr;  // of the update's squares, one a block
  float* column_factors = nullptr;

  MatrixScratch() = default;
  MatrixScratch(Scratch& scratch, const FactoredTensor& tensor, const MatrixTiles& tiles)
      : row_sums(scratch.take<double>(tiles.column_tiles * tensor.rows)),
        column_sums(scratch.take<double>(tiles.chunks * tensor.columns)),
        mean_sums(scratch.take<double>(means_blocks(tensor.rows))),
        update_sums(scratch.take<double>(tiles.blocks())),
        column_factors(scratch.take<float>(tensor.columns)) {}

  static int64_t bytes(const FactoredTensor& tensor) {
    MatrixTiles tiles(tensor.rows, tensor.columns);
    return padded_bytes_of<double>(tiles.column_tiles * tensor.rows) +
           padded_bytes_of<double>(tiles.chunks * tensor.columns) +
           padded_bytes_of<double>(means_blocks(tensor.rows)) + padded_bytes_of<double>(tiles.blocks()) +
           padded_bytes_of<float>(tensor.columns);
  }
};

// Calls body(group), the places in `tensors` of matrices that go through the kernels together: so many that
// starting kernels counts for nothing, and few enough for their scratch memory to be small.
template <typename Body>
void for_each_matrix_group(const std::vector<FactoredTensor>& tensors, const Body& body) {
  constexpr int64_t kMostElements = int64_t{32} << 20;
  constexpr size_t kMostMatrices = 128;  // a kernel's parameters have room for more
  std::vector<size_t> group;
  int64_t elements = 0;
  auto finish = [&] {
    if (!group.empty()) {
      body(group);
    }
    group.clear();
    elements = 0;
  };
  for (size_t n = 0; n < tensors.size(); ++n) {
    if (!tensors[n].is_matrix()) {
      continue;
    }
    if (group.size() == kMostMatrices || elements + tensors[n].elements() > kMostElements) {
      finish();
    }
    group.push_back(n);
    elements += tensors[n].elements();
  }
  finish();
}

inline int64_t adafactor_scratch_bytes(const std::vector<FactoredTensor>& tensors) {
  int64_t most = 0;
  for_each_matrix_group(tensors, [&](const std::vector<size_t>& group) {
    int64_t bytes = 0;
    for (size_t n : group) {
      bytes += MatrixScratch::bytes(tensors[n]);
    }
    most = std::max(most, bytes);
  });
  return padded_bytes_of<AdafactorNumbers>(1) + most;
}

}  // namespace snug::cuda
