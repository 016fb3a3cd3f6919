// Order and batches: every example once an epoch, and the same steps however they are split.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "data/batches/limits.h"
#include "data/batches/sequence.h"
#include "io/file_fixtures.h"

namespace snug {
namespace {

using Ids = std::vector<int32_t>;

// Example i has i % 5 + 2 tokens, all of them i; its last id is learned, and every id where i is odd.
Dataset numbered_dataset(int32_t count) {
  std::vector<Example> examples;
  for (int32_t i = 0; i < count; ++i) {
    Ids ids(static_cast<size_t>(i % 5 + 2), i);
    int64_t learned_begin = i % 2 == 1 ? 0 : static_cast<int64_t>(ids.size()) - 1;
    examples.push_back(make_example(ids, learned_begin));
  }
  return make_dataset(examples);
}

// The examples of a step in order, read back from the ids.
std::vector<int32_t> examples_of(const std::vector<Batch>& step) {
  std::vector<int32_t> examples;
  for (const Batch& batch : step) {
    for (int64_t s = 0; s < batch.sequences(); ++s) {
      examples.push_back(batch.ids[static_cast<size_t>(batch.offsets[static_cast<size_t>(s)])]);
    }
  }
  return examples;
}

BatchOptions options_of(int64_t micro, int64_t accumulation, double epochs) {
  BatchOptions options;
  options.effective_batch = micro * accumulation;
  options.micro_batch.sequences = micro;
  options.epochs = epochs;
  options.seed = 42;
  return options;
}

TEST(EpochOrder, IsAPermutationAndDiffersByEpochAndSeed) {
  for (int64_t count : {1, 2, 3, 17, 1000}) {
    std::vector<int64_t> order = epoch_order(count, 42, 3);
    std::vector<int64_t> sorted = order;
    std::sort(sorted.begin(), sorted.end());
    std::vector<int64_t> all(static_cast<size_t>(count));
    std::iota(all.begin(), all.end(), 0);
    EXPECT_EQ(sorted, all);
    EXPECT_EQ(order, epoch_order(count, 42, 3));
  }
  EXPECT_NE(epoch_order(100, 42, 0), epoch_order(100, 42, 1));
  EXPECT_NE(epoch_order(100, 42, 0), epoch_order(100, 43, 0));
}

TEST(EpochOrder, EveryPermutationIsAboutAsLikely) {
  std::map<std::vector<int64_t>, int> counts;
  for (int64_t epoch = 0; epoch < 6000; ++epoch) {
    ++counts[epoch_order(3, 1, epoch)];
  }
  ASSERT_EQ(counts.size(), 6U);
  for (const auto& [order, count] : counts) {
    EXPECT_NEAR(count, 1000, 150);  // five standard deviations
  }
}

TEST(Batch, LaysSequencesEndToEnd) {
  Dataset dataset = numbered_dataset(4);  // lengths 2 3 4 5
  std::vector<int64_t> examples = {1, 0, 2};
  Batch batch = make_batch(dataset, examples);
  EXPECT_EQ(batch.ids, (Ids{1, 1, 1, 0, 0, 2, 2, 2, 2}));
  EXPECT_EQ(batch.targets, (Ids{1, 1, -100, 0, -100, -100, -100, 2, -100}));
  EXPECT_EQ(batch.positions, (Ids{0, 1, 2, 0, 1, 0, 1, 2, 3}));
  EXPECT_EQ(batch.offsets, (Ids{0, 3, 5, 9}));
  EXPECT_EQ(batch.target_count, 4);
  EXPECT_EQ(batch.tokens(), 9);
  EXPECT_EQ(batch.sequences(), 3);
}

TEST(BatchSequence, EachEpochHasEveryExampleOnce) {
  Dataset dataset = numbered_dataset(21);
  BatchSequence sequence(dataset, options_of(2, 4, 2));
  EXPECT_EQ(sequence.total_steps(), 6);
  for (int epoch = 0; epoch < 2; ++epoch) {
    std::vector<int32_t> seen;
    for (size_t count : {8U, 8U, 5U}) {
      std::vector<Batch> step = sequence.next_step();
      EXPECT_EQ(step.size(), (count + 1) / 2);
      std::vector<int32_t> examples = examples_of(step);
      EXPECT_EQ(examples.size(), count);
      seen.insert(seen.end(), examples.begin(), examples.end());
    }
    std::sort(seen.begin(), seen.end());
    for (int32_t i = 0; i < 21; ++i) {
      EXPECT_EQ(seen[static_cast<size_t>(i)], i);
    }
  }
  EXPECT_TRUE(sequence.next_step().empty());
}

TEST(BatchSequence, ManyEpochsAreCountedAtOnceAndTooManyAreRefused) {
  Dataset dataset = numbered_dataset(37);
  BatchOptions options = options_of(8, 1, 1e6);
  BatchSequence sequence(dataset, options);
  EXPECT_EQ(sequence.total_steps(), 5'000'000);
  sequence.seek(4'999'999);
  EXPECT_EQ(sequence.next_step().size(), 1U);
  EXPECT_DOUBLE_EQ(sequence.epoch(), 1e6);
  EXPECT_TRUE(sequence.next_step().empty());
  for (double epochs : {1e9, 1e19, 1e300}) {
    options.epochs = epochs;
    for (Batching batching : {Batching::sequences, Batching::grouped, Batching::packed}) {
      options.batching = batching;
      options.packed_tokens = 100;
      options.packed_sequences = 10;
      std::string message = error_text(ErrorKind::bad_input, [&] { BatchSequence{dataset, options}; });
      EXPECT_SAYS(message, "training.num_train_epochs is ");
      EXPECT_SAYS(message, "training.max_steps");
    }
  }
}

TEST(BatchSequence, TheSplitDoesNotChangeTheSteps) {
  Dataset dataset = numbered_dataset(37);
  std::vector<std::vector<int32_t>> expected;
  std::vector<int64_t> expected_targets;
  for (auto [micro, accumulation] : {std::pair{8, 1}, {4, 2}, {2, 4}, {1, 8}}) {
    BatchSequence sequence(dataset, options_of(micro, accumulation, 3));
    std::vector<std::vector<int32_t>> steps;
    std::vector<int64_t> targets;
    for (auto step = sequence.next_step(); !step.empty(); step = sequence.next_step()) {
      steps.push_back(examples_of(step));
      targets.push_back(0);
      for (const Batch& batch : step) {
        EXPECT_LE(batch.sequences(), micro);
        targets.back() += batch.target_count;
      }
    }
    EXPECT_EQ(steps.size(), 15U);
    if (expected.empty()) {
      expected = steps;
      expected_targets = targets;
    }
    EXPECT_EQ(steps, expected);
    EXPECT_EQ(targets, expected_targets);
  }
}

TEST(BatchSequence, CountsFractionsOfEpochsAndMaxSteps) {
  Dataset dataset = numbered_dataset(20);
  EXPECT_EQ(BatchSequence(dataset, options_of(2, 1, 0.5)).total_steps(), 5);
  EXPECT_EQ(BatchSequence(dataset, options_of(2, 1, 0.41)).total_steps(), 5);
  EXPECT_EQ(BatchSequence(dataset, options_of(2, 1, 1.1)).total_steps(), 11);
  BatchOptions options = options_of(2, 1, 1);
  options.max_steps = 25;
  BatchSequence sequence(dataset, options);
  EXPECT_EQ(sequence.total_steps(), 25);
  while (!sequence.next_step().empty()) {
  }
  EXPECT_DOUBLE_EQ(sequence.epoch(), 2.5);
}

TEST(BatchSequence, ContinuesWhereItIsTold) {
  Dataset dataset = numbered_dataset(20);
  BatchSequence whole(dataset, options_of(3, 1, 2));
  BatchSequence resumed(dataset, options_of(3, 1, 2));
  for (int i = 0; i < 9; ++i) {
    whole.next_step();
  }
  resumed.seek(9);
  EXPECT_EQ(resumed.next_step_index(), 9);
  EXPECT_EQ(examples_of(resumed.next_step()), examples_of(whole.next_step()));
}

TEST(BatchSequence, KeepsTheFilesOrderWhenNotShuffled) {
  Dataset dataset = numbered_dataset(5);
  BatchOptions options = options_of(2, 1, 1);
  options.shuffle = false;
  BatchSequence sequence(dataset, options);
  EXPECT_EQ(examples_of(sequence.next_step()), (Ids{0, 1}));
  EXPECT_EQ(examples_of(sequence.next_step()), (Ids{2, 3}));
  EXPECT_EQ(examples_of(sequence.next_step()), (Ids{4}));
}

}  // namespace
}  // namespace snug
