// Packs: every example once, no pack too large, and hardly any room left in them.
#include "data/batches/limits.h"
#include "data/batches/sequence.h"
#include "data/data_fixture.h"

namespace snug {
namespace {

constexpr int64_t kNoLimit = int64_t{1} << 30;

Dataset dataset_of(const std::vector<int64_t>& lengths, const std::vector<int64_t>& source_lengths = {}) {
  Dataset dataset;
  dataset.add(table_of_lengths(lengths, source_lengths), {.max_length_tokens = kNoLimit});
  return dataset;
}

BatchOptions packs_of(int64_t tokens, int64_t sequences = kNoLimit, int64_t source_tokens = 0) {
  return {.seed = 11,
          .batching = Batching::packed,
          .packed_tokens = tokens,
          .packed_source_tokens = source_tokens,
          .packed_sequences = sequences};
}

int64_t divide_up(int64_t a, int64_t b) {
  return (a + b - 1) / b;
}

int64_t sum(const std::vector<int64_t>& values) {
  int64_t total = 0;
  for (int64_t value : values) {
    total += value;
  }
  return total;
}

void expect_sound(const EpochPieces& epoch, const BatchOptions& options, const std::vector<int64_t>& lengths,
                  const std::vector<int64_t>& source_lengths = {}) {
  std::vector<int> seen(lengths.size(), 0);
  for (int64_t pack = 0; pack < epoch.size(); ++pack) {
    int64_t tokens = 0;
    int64_t source_tokens = 0;
    ASSERT_FALSE(epoch.pieces(pack, pack + 1).empty());
    ASSERT_LE(std::ssize(epoch.pieces(pack, pack + 1)), options.packed_sequences);
    for (int64_t example : epoch.pieces(pack, pack + 1)) {
      auto index = static_cast<size_t>(example);
      ++seen.at(index);
      tokens += lengths[index];
      source_tokens += source_lengths.empty() ? 0 : source_lengths[index];
    }
    ASSERT_LE(tokens, options.packed_tokens);
    ASSERT_LE(source_tokens, options.packed_source_tokens);
  }
  EXPECT_EQ(std::count(seen.begin(), seen.end(), 1), std::ssize(lengths)) << "each once";
}

TEST(Packing, EveryExampleOnceAndPacksAreNearlyFull) {
  struct Case {
    int64_t count;
    int64_t typical;
    int64_t longest;
  };
  for (const Case& c : {Case{20000, 150, 2048}, Case{20000, 400, 2048}, Case{9000, 900, 2048},
                        Case{5000, 60, 512}, Case{12289, 300, 1024}}) {
    std::vector<int64_t> lengths = realistic_lengths(c.count, c.typical, c.longest, 5);
    BatchOptions options = packs_of(c.longest, c.longest / 8);
    Dataset dataset = dataset_of(lengths);
    EpochPieces epoch = make_epoch(dataset, options, 0);
    expect_sound(epoch, options, lengths);
    auto least = static_cast<double>(divide_up(sum(lengths), options.packed_tokens));
    EXPECT_LE(static_cast<double>(epoch.size()), 1.05 * least + 1) << c.typical << " of " << c.longest;
  }
}

std::vector<int64_t> repeated(const std::vector<int64_t>& lengths, int times) {
  std::vector<int64_t> all;
  for (int i = 0; i < times; ++i) {
    all.insert(all.end(), lengths.begin(), lengths.end());
  }
  return all;
}

TEST(Packing, PutsTheLongestFirstAndTheRestBehindThem) {
  // 70 + 30 and 60 + 40: not a token is left over.
  EXPECT_EQ(make_epoch(dataset_of(repeated({70, 30, 60, 40}, 200)), packs_of(100), 0).size(), 400);
  // 60 + 40, 50 + 50, then three of 30 a pack: 67 of them, the last with two, and two of 20; five of 20 a
  // pack.
  EXPECT_EQ(make_epoch(dataset_of(repeated({60, 40, 50, 30, 20}, 200)), packs_of(100), 0).size(),
            200 + 100 + 67 + 40);
}

TEST(Packing, HoldsNoMoreSequencesThanItMay) {
  std::vector<int64_t> lengths(100, 2);
  BatchOptions options = packs_of(1000, 7);
  EpochPieces epoch = make_epoch(dataset_of(lengths), options, 0);
  expect_sound(epoch, options, lengths);
  EXPECT_EQ(epoch.size(), 15);
}

TEST(Packing, BothLengthsOfPairsAreKept) {
  std::vector<int64_t> lengths = realistic_lengths(9000, 40, 128, 6);
  std::vector<int64_t> source_lengths = realistic_lengths(9000, 120, 512, 7);
  BatchOptions options = packs_of(128, 64, 512);
  EpochPieces epoch = make_epoch(dataset_of(lengths, source_lengths), options, 0);
  expect_sound(epoch, options, lengths, source_lengths);
  int64_t least = std::max(divide_up(sum(lengths), 128), divide_up(sum(source_lengths), 512));
  EXPECT_LE(static_cast<double>(epoch.size()), 1.15 * static_cast<double>(least));
}

TEST(Packing, DependsOnSeedAndEpochAlone) {
  std::vector<int64_t> lengths = realistic_lengths(6000, 100, 512, 8);
  Dataset dataset = dataset_of(lengths);
  BatchOptions options = packs_of(1024);
  EpochPieces first = make_epoch(dataset, options, 0);
  EpochPieces again = make_epoch(dataset_of(lengths), options, 0);
  EXPECT_EQ(first.examples, again.examples);
  EXPECT_EQ(first.begins, again.begins);
  EXPECT_NE(first.examples, make_epoch(dataset, options, 1).examples);
  options.seed = 12;
  EXPECT_NE(first.examples, make_epoch(dataset, options, 0).examples);
}

// Else a run would begin with one pack of long examples after the other, and end with the short ones.
TEST(Packing, LongAndShortExamplesStandAnywhere) {
  std::vector<int64_t> lengths = realistic_lengths(4000, 100, 512, 9);
  Dataset dataset = dataset_of(lengths);
  EpochPieces epoch = make_epoch(dataset, packs_of(512), 0);
  std::array<double, 2> with_long = {0, 0};  // packs of each half of the epoch that hold a long example
  for (int64_t pack = 0; pack < epoch.size() / 2 * 2; ++pack) {
    bool has_long = false;
    for (int64_t example : epoch.pieces(pack, pack + 1)) {
      has_long = has_long || lengths[static_cast<size_t>(example)] > 200;
    }
    with_long.at(static_cast<size_t>(pack * 2 / epoch.size())) += has_long ? 1 : 0;
  }
  EXPECT_GT(with_long[1], 100);
  EXPECT_NEAR(with_long[0] / with_long[1], 1, 0.2);
}

// What the model gets in each step, its micro-batches laid end to end.
std::vector<std::pair<Ids, Ids>> steps_of(const Dataset& dataset, const Recipe& recipe) {
  BatchLimits limits = DataLimits(recipe, dataset, {})(recipe).train;
  BatchSequence sequence(dataset, training_batches(recipe, dataset, limits));
  std::vector<std::pair<Ids, Ids>> steps;
  for (std::vector<Batch> step = sequence.next_step(); !step.empty(); step = sequence.next_step()) {
    EXPECT_LE(std::ssize(step), recipe.training.gradient_accumulation_steps.value());
    auto& [ids, source_ids] = steps.emplace_back();
    for (const Batch& batch : step) {
      EXPECT_LE(batch.tokens(), limits.tokens);
      EXPECT_LE(batch.source_tokens(), limits.source_tokens);
      EXPECT_LE(batch.sequences(), limits.sequences);
      ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
      source_ids.insert(source_ids.end(), batch.source_ids.begin(), batch.source_ids.end());
    }
  }
  EXPECT_EQ(std::ssize(steps), sequence.total_steps());
  return steps;
}

// A pack is as long as one sequence may be, and a step is per_device × accumulation packs: a split only says
// which of them go through the model together.
TEST(Packing, AStepIsTheSameHoweverItIsSplit) {
  std::vector<int64_t> lengths = realistic_lengths(3000, 60, 256, 12);
  for (bool pairs : {false, true}) {
    Dataset dataset =
        dataset_of(lengths, pairs ? realistic_lengths(3000, 90, 512, 13) : std::vector<int64_t>{});
    Recipe recipe;
    recipe.data.packing = true;
    recipe.data.max_length = pairs ? 512 : 256;
    recipe.data.max_target_length = 256;
    recipe.training.num_train_epochs = 2.5;
    std::vector<std::pair<Ids, Ids>> expected;
    for (auto [size, accumulation] : {std::pair{1, 8}, {2, 4}, {4, 2}, {8, 1}}) {
      recipe.training.per_device_train_batch_size = size;
      recipe.training.gradient_accumulation_steps = accumulation;
      std::vector<std::pair<Ids, Ids>> steps = steps_of(dataset, recipe);
      expected = expected.empty() ? steps : expected;
      EXPECT_EQ(steps.size(), expected.size()) << size << " × " << accumulation;
      EXPECT_TRUE(steps == expected) << size << " × " << accumulation;
    }
    for (const auto& [ids, source_ids] : expected) {
      EXPECT_LE(std::ssize(ids), 8 * 256);
      EXPECT_LE(std::ssize(source_ids), 8 * 512);
    }
  }
}

class PackedSequence : public testing::Test {
 protected:
  PackedSequence() {
    options_.effective_batch = 3;
    options_.epochs = 2.4;
  }
  static Ids first_ids(const std::vector<Batch>& step) {
    Ids ids;
    for (const Batch& batch : step) {
      ids.insert(ids.end(), batch.ids.begin(), batch.ids.end());
    }
    return ids;
  }

  Dataset dataset_ = dataset_of(realistic_lengths(700, 50, 256, 10));
  BatchOptions options_ = packs_of(256);
};

TEST_F(PackedSequence, HasAsManyStepsAsItSays) {
  for (double epochs : {1.0, 2.0, 0.3, 2.4}) {
    options_.epochs = epochs;
    BatchSequence sequence(dataset_, options_);
    int64_t steps = 0;
    int64_t of_first_epoch = 0;
    while (!sequence.next_step().empty()) {
      ++steps;
      of_first_epoch += sequence.epoch() <= 1 ? 1 : 0;
    }
    EXPECT_EQ(steps, sequence.total_steps());
    EXPECT_EQ(sequence.next_step_index(), steps);
    EXPECT_GE(sequence.epoch(), epochs - 1e-9);
    EXPECT_LT(sequence.epoch(), epochs + 1.0 / static_cast<double>(of_first_epoch) + 1e-9);
    if (epochs == 1.0) {
      EXPECT_EQ(steps, divide_up(make_epoch(dataset_, options_, 0).size(), 3));
      EXPECT_DOUBLE_EQ(sequence.epoch(), 1);
    }
  }
}

TEST_F(PackedSequence, ContinuesWhereItIsTold) {
  BatchSequence whole(dataset_, options_);
  std::vector<Ids> expected;
  std::vector<double> epochs;
  for (std::vector<Batch> step = whole.next_step(); !step.empty(); step = whole.next_step()) {
    expected.push_back(first_ids(step));
    epochs.push_back(whole.epoch());
  }
  BatchSequence sought(dataset_, options_);
  sought.next_step();
  for (size_t step = 0; step < expected.size(); step += 5) {
    size_t from_the_end = expected.size() - 1 - step;
    sought.seek(static_cast<int64_t>(from_the_end));
    EXPECT_EQ(first_ids(sought.next_step()), expected[from_the_end]);
    EXPECT_DOUBLE_EQ(sought.epoch(), epochs[from_the_end]);
  }
  sought.seek(sought.total_steps());
  EXPECT_TRUE(sought.next_step().empty());
}

TEST_F(PackedSequence, MaxStepsOverruleEpochs) {
  options_.max_steps = 500;
  BatchSequence sequence(dataset_, options_);
  int64_t steps = 0;
  while (!sequence.next_step().empty()) {
    ++steps;
  }
  EXPECT_EQ(steps, 500);
}

}  // namespace
}  // namespace snug
