// What Adafactor's kernels share: tensors as they see them, a thread's part of a matrix, and the factors of a
// tile (backend/cuda_plan/adafactor_scratch.h says what tiles are).
#pragma once

#include "backend/adafactor_formula.h"
#include "backend/cuda/optimizer_lists.cuh"
#include "backend/cuda_plan/adafactor_scratch.h"

namespace snug::cuda {

static_assert(kAdafactorThreads == kUpdateThreads, "block_sum adds up the threads of an update");
inline constexpr int kHalfLane = kLaneColumns / 2;
static_assert(kHalfLane == 4, "neighbours are moved four at a time");

// A tensor of the file.
struct TensorPlaces {
  GradientView gradient;
  void* parameter = nullptr;
  void* beside = nullptr;
  float* means = nullptr;  // of rows, then of columns; of a vector's elements
  int64_t rows = 0;
  int64_t length = 1;
  uint64_t number = 0;  // for random bits
  float weight_decay = 0;
  bool is_aligned = false;  // four neighbours of a row may be moved at once
};

struct MatrixEntry {
  TensorPlaces tensor;
  MatrixTiles tiles;
  MatrixScratch scratch;
};

// Lists travel as a kernel's parameter; blockIdx.y is the entry.
template <typename Entry>
struct EntryList {
  Entry entries[kMostEntries<Entry>];
};

// A thread's part of a tile: eight columns, four neighbours in each half of the tile, of one row after the
// other. Tiles of 256 columns thereby give a thread the elements that share random bits.
class TilePart {
 public:
  __device__ explicit TilePart(const MatrixEntry& entry) : tensor_(entry.tensor), tiles_(entry.tiles) {
    int lane = static_cast<int>(threadIdx.x) % 32;
    column_tile = static_cast<int>(blockIdx.x) % tiles_.column_tiles;
    chunk = static_cast<int>(blockIdx.x) / tiles_.column_tiles;
    column_ = int64_t{column_tile} * tiles_.tile_columns() + kHalfLane * (lane % tiles_.lanes);
    first_row_ = static_cast<int>(threadIdx.x) / 32 * kWarpRows * tiles_.rows_at_once() + lane / tiles_.lanes;
  }

  int column_tile;
  int chunk;

  // Calls body(first row of a strip) for each of the block's strips.
  template <typename Body>
  __device__ void for_each_strip(const Body& body) const {
    int64_t begin = chunk * tiles_.chunk_rows;
    int64_t end = min(begin + tiles_.chunk_rows, tensor_.rows);
    for (int64_t strip = begin; strip < end; strip += tiles_.strip_rows()) {
      body(strip);
    }
  }
  // Within a strip, the thread's row of turn `turn`, of kWarpRows.
  __device__ int row(int turn) const { return first_row_ + turn * tiles_.rows_at_once(); }
  __device__ int64_t column(int half) const { return column_ + half * (tiles_.tile_columns() / 2); }
  // Of four neighbours, those that there are; may be negative.
  __device__ int64_t left(int half) const { return tensor_.length - column(half); }

  __device__ void read_gradients(int64_t row, float (&values)[kLaneColumns]) const {
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto some = load_some(tensor_.gradient, row * tensor_.length + column(half),
                            row < tensor_.rows ? left(half) : 0, tensor_.is_aligned);
#pragma unroll
      for (int i = 0; i < kHalfLane; ++i) {
        values[kHalfLane * half + i] = some.at[i];
      }
    }
  }

 private:
  const TensorPlaces& tensor_;
  const MatrixTiles& tiles_;
  int64_t column_;
  int first_row_;
};

// The sum of `count` numbers, by a block, which makes a kernel of its own superfluous. `kPlace` tells calls
// within a kernel apart.
template <int kPlace>
__device__ inline double sum_of(const double* numbers, int count) {
  double sum = 0;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += kAdafactorThreads) {
    sum += numbers[i];
  }
  return block_sum<kPlace>(sum);
}

// What gradients of a tile are multiplied with.
class TileFactors {
 public:
  __device__ TileFactors(const MatrixEntry& entry, const TilePart& part, float (&rows)[kMostStripRows])
      : entry_(entry), rows_(rows) {
    double sum = sum_of<1>(entry.scratch.mean_sums, means_blocks(entry.tensor.rows));
    mean_of_rows_ = static_cast<float>(sum / static_cast<double>(entry.tensor.rows));
#pragma unroll
    for (int half = 0; half < 2; ++half) {
      auto some = load_some(entry.scratch.column_factors + part.column(half), part.left(half), true);
#pragma unroll
      for (int i = 0; i < kHalfLane; ++i) {
        columns_[kHalfLane * half + i] = some.at[i];
      }
    }
  }

  // All threads of the block call it before factors of a strip are asked for.
  __device__ void begin_strip(int64_t strip) {
    __syncthreads();
    for (int i = static_cast<int>(threadIdx.x); i < entry_.tiles.strip_rows(); i += kAdafactorThreads) {
      int64_t row = strip + i;
      rows_[i] = row < entry_.tensor.rows ? row_factor(entry_.tensor.means[row], mean_of_rows_) : 0.0F;
    }
    __syncthreads();
  }
  __device__ float at(int row_of_strip, int column) const {
    return rows_[row_of_strip] * columns_[column];
  }

 private:
  const MatrixEntry& entry_;
  float (&rows_)[kMostStripRows];
  float mean_of_rows_;
  float columns_[kLaneColumns];
};

}  // namespace snug::cuda
