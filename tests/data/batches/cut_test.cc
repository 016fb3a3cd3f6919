// Micro-batches: a step's sequences in order, as many together as the plan has room for.
#include "data/batches/cut.h"

#include "base/rng.h"
#include "data/batches/limits.h"
#include "data/batches/sequence.h"
#include "data/data_fixture.h"

namespace snug {
namespace {

Dataset dataset_of(const std::vector<int64_t>& lengths, const std::vector<int64_t>& source_lengths = {}) {
  Dataset dataset;
  dataset.add(table_of_lengths(lengths, source_lengths), {.max_length_tokens = 1 << 20});
  return dataset;
}

std::vector<int64_t> ends_of(const std::vector<int64_t>& lengths, const BatchLimits& most) {
  Dataset dataset = dataset_of(lengths);
  EpochPieces epoch = make_epoch(dataset, {.shuffle = false}, 0);
  return cut_pieces(dataset, epoch, 0, epoch.size(), most);
}

TEST(Cut, FillsUntilTheNextWouldBeTooMuch) {
  using Ends = std::vector<int64_t>;
  BatchLimits ten{.sequences = 100, .tokens = 10, .source_tokens = 0};
  EXPECT_EQ(ends_of({4, 6, 2, 8, 10, 2, 2}, ten), (Ends{2, 4, 5, 7}));
  EXPECT_EQ(ends_of({4, 7, 3, 8}, ten), (Ends{1, 3, 4})) << "in order: what would fit later is not fetched";
  EXPECT_EQ(ends_of({2, 2, 2, 2}, ten), (Ends{4}));
  ten.sequences = 3;
  EXPECT_EQ(ends_of({2, 2, 2, 2}, ten), (Ends{3, 4})) << "no more sequences than there is room for";
}

TEST(Cut, PairsHaveTwoLengths) {
  Dataset dataset = dataset_of({5, 5, 1, 1}, {1, 1, 30, 30});
  EpochPieces epoch = make_epoch(dataset, {.shuffle = false}, 0);
  EXPECT_EQ(cut_pieces(dataset, epoch, 0, 4, {.sequences = 9, .tokens = 10, .source_tokens = 32}),
            (std::vector<int64_t>{2, 3, 4}));
}

// What every run relies on: whatever the lengths are and however much is planned, no micro-batch needs more,
// none is closed early, the order stays, and there are no more of them than is said.
TEST(Cut, NeverExceedsThePlanWhateverTheLengths) {
  Rng rng(7);
  for (int round = 0; round < 300; ++round) {
    bool pairs = rng.below(2) == 0;
    auto longest = static_cast<int64_t>(2 + rng.below(60));
    auto count = static_cast<int64_t>(1 + rng.below(80));
    std::vector<int64_t> lengths;
    std::vector<int64_t> source_lengths;
    for (int64_t i = 0; i < count; ++i) {
      lengths.push_back(static_cast<int64_t>(1 + rng.below(static_cast<uint64_t>(longest))));
      if (pairs) {
        source_lengths.push_back(static_cast<int64_t>(1 + rng.below(static_cast<uint64_t>(longest))));
      }
    }
    Dataset dataset = dataset_of(lengths, source_lengths);
    Recipe recipe;
    recipe.data.max_length = longest + static_cast<int64_t>(rng.below(30));
    recipe.data.max_target_length = pairs ? longest : 0;
    recipe.data.packing = rng.below(3) == 0;
    recipe.training.effective_batch_size = static_cast<int64_t>(1 + rng.below(20));
    recipe.memory.micro_batch_tokens = static_cast<int64_t>(1 + rng.below(300));
    RunLimits limits = DataLimits(recipe, dataset, {})(recipe);
    BatchSequence sequence(dataset, training_batches(recipe, dataset, limits.train));
    BatchSequence whole(dataset, training_batches(recipe, dataset));
    for (std::vector<Batch> step = sequence.next_step(); !step.empty(); step = sequence.next_step()) {
      ASSERT_LE(std::ssize(step), limits.step.most) << round;
      std::vector<int32_t> ids;
      for (size_t i = 0; i < step.size(); ++i) {
        ASSERT_LE(step[i].tokens(), limits.train.tokens) << round;
        ASSERT_LE(step[i].source_tokens(), limits.train.source_tokens) << round;
        ASSERT_LE(step[i].sequences(), limits.train.sequences) << round;
        ids.insert(ids.end(), step[i].ids.begin(), step[i].ids.end());
        if (i > 0 && !recipe.data.packing) {
          const Batch& before = step[i - 1];
          bool had_room =
              before.sequences() < limits.train.sequences &&
              before.tokens() + step[i].offsets[1] <= limits.train.tokens &&
              (!pairs || before.source_tokens() + step[i].source_offsets[1] <= limits.train.source_tokens);
          ASSERT_FALSE(had_room) << round;
        }
      }
      std::vector<Batch> uncut = whole.next_step();
      ASSERT_EQ(uncut.size(), 1U);
      ASSERT_EQ(uncut.front().ids, ids) << round;
    }
    ASSERT_TRUE(whole.next_step().empty());
  }
}

// 2 × 8 rows of up to 2048 tokens are planned as 4,096 tokens, and 16 rows of a hundred tokens are far less.
TEST(Cut, ShortRowsGoThroughTogether) {
  Recipe recipe;
  recipe.data.max_length = 2048;
  recipe.training.per_device_train_batch_size = 2;
  recipe.training.gradient_accumulation_steps = 8;
  Dataset short_rows = dataset_of(realistic_lengths(500, 90, 240, 3));
  RunLimits limits = DataLimits(recipe, short_rows, {})(recipe);
  EXPECT_LE(limits.train.tokens, 16 * 240) << "no more than the longest rows have together";
  EXPECT_EQ(limits.train.sequences, 16);
  EXPECT_EQ(limits.step.most, 1);
  EXPECT_EQ(limits.step.expected, 1.0);
  std::vector<int64_t> lengths = realistic_lengths(500, 90, 240, 3);
  lengths.insert(lengths.end(), 40, 2048);
  limits = DataLimits(recipe, dataset_of(lengths), {})(recipe);
  EXPECT_EQ(limits.train.tokens, 4096);
  EXPECT_EQ(limits.step.most, 8);
  EXPECT_GT(limits.step.expected.value(), 1.0);
  EXPECT_LT(limits.step.expected.value(), 2.0) << "one row in 13 is long";
}

// Of a row's tokens as many are targets as are learned of it.
TEST(Cut, KnowsTheShareThatIsLearned) {
  Recipe recipe;
  Dataset rows = make_dataset(
      {make_example({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 6), make_example({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, 8)});
  EXPECT_DOUBLE_EQ(DataLimits(recipe, rows, {})(recipe).step.learned, (4 + 2) / 20.0);
  EXPECT_EQ(recipe_limits(recipe, {}).step.learned, 1);
}

TEST(Cut, IsExpectedAsItHappens) {
  Recipe recipe;
  recipe.data.max_length = 256;
  recipe.training.effective_batch_size = 8;
  recipe.memory.micro_batch_tokens = 512;
  Dataset dataset = dataset_of(realistic_lengths(800, 100, 256, 5));
  RunLimits limits = DataLimits(recipe, dataset, {})(recipe);
  recipe.training.num_train_epochs = 1;
  BatchSequence sequence(dataset, training_batches(recipe, dataset, limits.train));
  double batches = 0;
  for (std::vector<Batch> step = sequence.next_step(); !step.empty(); step = sequence.next_step()) {
    batches += static_cast<double>(step.size());
  }
  EXPECT_DOUBLE_EQ(limits.step.expected.value(), batches / static_cast<double>(sequence.total_steps()));
}

}  // namespace
}  // namespace snug
