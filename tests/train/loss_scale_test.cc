// The scale of the loss falls when gradients overflow and rises after many steps without.
#include "train/loss_scale.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(LossScale, IsOneWhereItIsNotNeeded) {
  LossScale scale(false);
  scale.after_step(false);
  EXPECT_EQ(scale.value(), 1.0F);
}

TEST(LossScale, HalvesOnOverflowAndNeverFallsBelowOne) {
  LossScale scale(true);
  EXPECT_EQ(scale.value(), 65536.0F);
  scale.after_step(false);
  EXPECT_EQ(scale.value(), 32768.0F);
  for (int i = 0; i < 100; ++i) {
    scale.after_step(false);
  }
  EXPECT_EQ(scale.value(), 1.0F);
}

TEST(LossScale, DoublesAfterTwoThousandGoodStepsInARow) {
  LossScale scale(true);
  for (int i = 0; i < 1999; ++i) {
    scale.after_step(true);
  }
  EXPECT_EQ(scale.value(), 65536.0F);
  scale.after_step(true);
  EXPECT_EQ(scale.value(), 131072.0F);
  for (int i = 0; i < 1999; ++i) {
    scale.after_step(true);
  }
  scale.after_step(false);  // the count starts again
  for (int i = 0; i < 1999; ++i) {
    scale.after_step(true);
  }
  EXPECT_EQ(scale.value(), 65536.0F);
}

}  // namespace
}  // namespace snug
