// Nearest names, by edit distance.
#include "base/names.h"

#include <gtest/gtest.h>

namespace snug {
namespace {

TEST(Names, EditDistance) {
  EXPECT_EQ(edit_distance("", ""), 0);
  EXPECT_EQ(edit_distance("abc", ""), 3);
  EXPECT_EQ(edit_distance("", "abc"), 3);
  EXPECT_EQ(edit_distance("kitten", "sitting"), 3);
  EXPECT_EQ(edit_distance("flaw", "lawn"), 2);
  EXPECT_EQ(edit_distance("same", "same"), 0);
  EXPECT_EQ(edit_distance("trian", "train"), 1);  // two letters that changed places
  EXPECT_EQ(edit_distance("ab", "ba"), 1);
}

TEST(Names, NearestNameOrNone) {
  std::vector<std::string> keys = {"learning_rate", "lora_alpha", "max_steps", "r"};
  EXPECT_EQ(nearest_name("learning_rat", keys), "learning_rate");
  EXPECT_EQ(nearest_name("lroa_alhpa", keys), "lora_alpha");
  EXPECT_EQ(nearest_name("maxsteps", keys), "max_steps");
  EXPECT_EQ(nearest_name("entirely_different", keys), "");
  EXPECT_EQ(nearest_name("anything", {}), "");
}

TEST(Names, AnotherWordIsNoMisspelling) {
  EXPECT_EQ(nearest_name("save_steps", {"max_steps", "eval_steps"}), "");
  EXPECT_EQ(nearest_name("use_dora", {"use_rslora"}), "");
  EXPECT_EQ(nearest_name("min_length", {"max_length"}), "");
  EXPECT_EQ(nearest_name("per_device_batch_size", {"per_device_train_batch_size"}),
            "per_device_train_batch_size");
  EXPECT_EQ(nearest_name("trian", {"plan", "train", "data"}), "train");
}

}  // namespace
}  // namespace snug
