// Classes of batch sizes: few, near, and none that splits full batches.
#include "backend/cuda_plan/token_sizes.h"

#include <gtest/gtest.h>

#include <set>

namespace snug::cuda {
namespace {

TEST(TokenSizes, AClassIsAtMostASixteenthLargerAndItsOwnClass) {
  int64_t before = 0;
  for (int64_t tokens = 0; tokens <= 70'000; ++tokens) {
    int64_t largest = size_class_of(tokens);
    ASSERT_GE(largest, tokens);
    ASSERT_LE((largest - tokens) * 16, tokens) << tokens;
    ASSERT_EQ(size_class_of(largest), largest) << tokens;
    ASSERT_GE(largest, before) << tokens;
    before = largest;
  }
}

TEST(TokenSizes, FewClassesHoldAllLengths) {
  std::set<int64_t> classes;
  for (int64_t tokens = 1; tokens <= 2048; ++tokens) {
    classes.insert(size_class_of(tokens));
  }
  EXPECT_EQ(classes.size(), 32U + 6 * 16);
  for (int64_t tokens = 2049; tokens <= 131'072; ++tokens) {
    classes.insert(size_class_of(tokens));
  }
  EXPECT_EQ(classes.size(), 32U + 12 * 16);
}

TEST(TokenSizes, FullBatchesAreTheLargestOfTheirClass) {
  for (int64_t full : {1, 7, 31, 256, 320, 512, 768, 1024, 1536, 2048, 6144, 8192, 16384, 32768}) {
    EXPECT_EQ(size_class_of(full), full);
  }
}

}  // namespace
}  // namespace snug::cuda
