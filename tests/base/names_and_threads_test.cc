// Nearest names, and parallel loops that visit each index once.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>

#include "base/names.h"
#include "base/threads.h"

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

TEST(Threads, EveryIndexIsVisitedOnce) {
  for (int threads : {1, 2, 3, 8}) {
    set_thread_count(threads);
    EXPECT_EQ(thread_count(), threads);
    for (int64_t count : {0, 1, 2, 7, 8, 9, 1000, 4097}) {
      for (int64_t grain : {1, 64, 100000}) {
        auto visits = std::make_unique<std::atomic<int>[]>(static_cast<size_t>(count) + 1);
        parallel_for(count, grain, [&](int64_t first, int64_t last) {
          for (int64_t i = first; i < last; ++i) {
            ++visits[static_cast<size_t>(i)];
          }
        });
        for (int64_t i = 0; i < count; ++i) {
          ASSERT_EQ(visits[static_cast<size_t>(i)], 1) << i << " of " << count << " with " << threads;
        }
        ASSERT_EQ(visits[static_cast<size_t>(count)], 0);
      }
    }
  }
  set_thread_count(0);
  EXPECT_GE(thread_count(), 1);
}

TEST(Threads, LoopsInsideLoopsStayOnTheirThread) {
  set_thread_count(2);
  std::atomic<int64_t> sum{0};
  parallel_for(4, 1, [&](int64_t first, int64_t last) {
    for (int64_t i = first; i < last; ++i) {
      parallel_for(10, 1, [&](int64_t a, int64_t b) { sum += b - a; });
    }
  });
  EXPECT_EQ(sum, 40);
  set_thread_count(0);
}

}  // namespace
}  // namespace snug
