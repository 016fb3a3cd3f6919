// How Adafactor's kernels share out matrices: this runs in every build, without a card.
#include <gtest/gtest.h>

#include "backend/cuda_plan/adafactor_scratch.h"

namespace snug::cuda {
namespace {

FactoredTensor matrix(int64_t rows, int64_t columns) {
  return {.rows = rows, .columns = columns};
}

TEST(AdafactorTiles, CoverAMatrixOnce) {
  for (int64_t rows : {1, 63, 64, 65, 896, 4096, 5121, 32128, 151936}) {
    for (int64_t length : {1, 8, 9, 16, 100, 256, 257, 2048, 3584, 18944}) {
      MatrixTiles tiles(rows, length);
      SCOPED_TRACE(std::to_string(rows) + " x " + std::to_string(length));
      EXPECT_EQ(tiles.lanes * tiles.rows_at_once(), 32);
      EXPECT_LE(tiles.strip_rows(), kMostStripRows);
      EXPECT_EQ(tiles.chunk_rows % tiles.strip_rows(), 0);
      EXPECT_GE(int64_t{tiles.column_tiles} * tiles.tile_columns(), length);
      EXPECT_LT(int64_t{tiles.column_tiles - 1} * tiles.tile_columns(), length);
      EXPECT_GE(tiles.chunks * tiles.chunk_rows, rows);
      EXPECT_LT((tiles.chunks - 1) * tiles.chunk_rows, rows);
      EXPECT_LE(tiles.chunks, 64);  // a thread adds up a column's
    }
  }
}

TEST(AdafactorTiles, EveryMatrixIsInOneGroup) {
  std::vector<FactoredTensor> tensors;
  for (int64_t i = 0; i < 300; ++i) {
    tensors.push_back(i % 3 == 0 ? FactoredTensor{.rows = 2048} : matrix(2048, 1024 + 64 * (i % 50)));
  }
  tensors.push_back(matrix(151936, 3584));
  tensors.push_back(matrix(16, 16));
  std::vector<size_t> seen;
  for_each_matrix_group(tensors, [&](const std::vector<size_t>& group) {
    ASSERT_FALSE(group.empty());
    int64_t elements = 0;
    for (size_t n : group) {
      seen.push_back(n);
      elements += tensors[n].elements();
    }
    EXPECT_TRUE(group.size() == 1 || elements <= int64_t{32} << 20);
  });
  std::vector<size_t> wanted;
  for (size_t n = 0; n < tensors.size(); ++n) {
    if (tensors[n].is_matrix()) {
      wanted.push_back(n);
    }
  }
  EXPECT_EQ(seen, wanted);
}

TEST(AdafactorTiles, SmallMatricesAreLimitedInNumber) {
  std::vector<FactoredTensor> tensors(500, matrix(16, 16));
  size_t groups = 0;
  for_each_matrix_group(tensors, [&](const std::vector<size_t>& group) {
    EXPECT_LE(group.size(), 128U);
    ++groups;
  });
  EXPECT_EQ(groups, 4U);
}

// What is planned is what the kernels' pieces take.
TEST(AdafactorTiles, ScratchIsWhatIsTaken) {
  std::vector<FactoredTensor> tensors = {
      matrix(700, 64), {.rows = 5000}, matrix(2048, 5120), matrix(9000, 7)};
  std::vector<std::byte> memory(static_cast<size_t>(adafactor_scratch_bytes(tensors)));
  Scratch scratch(memory);
  scratch.take<AdafactorNumbers>(1);
  for_each_matrix_group(tensors, [&](const std::vector<size_t>& group) {
    EXPECT_EQ(group.size(), 3U);
    for (size_t n : group) {
      MatrixScratch pieces(scratch, tensors[n], MatrixTiles(tensors[n].rows, tensors[n].columns));
      EXPECT_NE(pieces.column_factors, nullptr);
    }
  });
  EXPECT_TRUE(scratch.rest().empty());
}

}  // namespace
}  // namespace snug::cuda
