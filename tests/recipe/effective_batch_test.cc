// How many sequences a step has, in each way of saying it.
#include "recipe/effective_batch.h"

#include <gtest/gtest.h>

#include "recipe/parse.h"

namespace snug {
namespace {

int64_t effective_of(const std::vector<std::string>& settings) {
  return effective_batch(
      parse_recipe("model: {path: tiny}\ndata: {train_file: train.jsonl}\n", "", settings).training);
}

TEST(EffectiveBatch, IsSaidDirectlyOrAsAProduct) {
  EXPECT_EQ(effective_of({}), 8);
  EXPECT_EQ(effective_of({"training.gradient_accumulation_steps=4"}), 32);
  EXPECT_EQ(effective_of({"training.per_device_train_batch_size=2"}), 2);
  EXPECT_EQ(
      effective_of({"training.per_device_train_batch_size=2", "training.gradient_accumulation_steps=8"}), 16);
  EXPECT_EQ(effective_of({"training.effective_batch_size=24"}), 24);
  EXPECT_EQ(effective_of({"training.effective_batch_size=24", "training.per_device_train_batch_size=7"}), 24)
      << "a bound of tokens need not divide it";
  EXPECT_EQ(effective_of({"training.effective_batch_size=24", "training.per_device_train_batch_size=6",
                          "training.gradient_accumulation_steps=4"}),
            24);
}

}  // namespace
}  // namespace snug
